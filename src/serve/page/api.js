/* api.js - asks the server: /v1/chat/completions or /v1/completions as a stream, and documents. Addresses are relative
 * to the page, so a proxy may put it under a path. Every failure becomes an ApiError with words for people. */
import { EventParser } from './sse.js';

export class ApiError extends Error {
  /* status: of the answer, 0 where none came. text: instead of the words for the status. detail: the server's own words.
   * retryAfter: seconds, for busy servers. */
  constructor(status, { text = '', detail = '', retryAfter = null, keySent = false } = {}) {
    super(text || words(status, keySent));
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }

  get busy() {
    return this.status === 503 || this.status === 429;
  }
}

const statusWords = {
  0: 'No answer from the server. Is hearth serve still running?',
  400: 'The server did not accept the request.',
  403: 'The server refused the request.',
  404: 'The server does not have what was asked for.',
  413: 'The conversation is larger than the server accepts.',
  429: 'The server is busy.',
  503: 'The server is busy.',
};

function words(status, keySent) {
  if (status === 401)
    return keySent ? 'The server did not accept the API key.' : 'The server wants an API key.';
  return statusWords[status] ?? (status >= 500 ? `The server failed (status ${status}).`
                                               : `The server did not accept the request (status ${status}).`);
}

/* Retry-After is a number of seconds or a date. */
export function retrySeconds(header, now = Date.now()) {
  if (header === null || header.trim() === '')
    return null;
  const seconds = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - now) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : null;
}

async function failure(response, key) {
  let detail = '';
  try {
    detail = String((await response.json()).error.message);
  } catch {
    // An answer without JSON of the API's form: the status has to say it.
  }
  return new ApiError(response.status,
    { detail, retryAfter: retrySeconds(response.headers.get('Retry-After')), keySent: Boolean(key) });
}

async function ask(path, key, options) {
  const headers = { ...options?.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI),
      { cache: 'no-store', credentials: 'omit', ...options, headers });
  } catch (error) {
    throw error.name === 'AbortError' ? error : new ApiError(0);
  }
  if (!response.ok)
    throw await failure(response, key);
  return response;
}

/* The document at a path. */
export async function getJson(path, key, signal) {
  const response = await ask(path, key, { signal });
  try {
    return await response.json();
  } catch (error) {
    throw error.name === 'AbortError' ? error
      : new ApiError(response.status, { detail: `${path} is not JSON` });
  }
}

/* What one chunk of a stream says, from either address. */
function readChunk(chunk) {
  const choice = chunk.choices?.[0];
  return {
    content: choice?.delta?.content ?? choice?.text ?? '',
    reasoning: choice?.delta?.reasoning_content ?? '',
    finish: choice?.finish_reason ?? null,
    usage: chunk.usage ?? null,
    model: chunk.model ?? null,
  };
}

/* Yields the chunks of an answer while they arrive. Ends when the server said [DONE]; a stream that ends before is an
 * error, and so is an error that the server sends inside it. */
export async function* streamAnswer(path, body, key, signal) {
  const response = await ask(path, key, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const parser = new EventParser();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw error.name === 'AbortError' ? error
          : new ApiError(0, { text: 'The connection broke before the answer was complete.' });
      });
      if (done)
        throw new ApiError(0, { text: 'The connection ended before the answer was complete.' });
      for (const event of parser.feed(value)) {
        if (event.data === '[DONE]')
          return;
        const chunk = JSON.parse(event.data);
        if (chunk.error)
          throw new ApiError(500,
            { text: 'The server failed while it answered.', detail: String(chunk.error.message ?? '') });
        yield readChunk(chunk);
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // tells the server that nobody reads on
  }
}
