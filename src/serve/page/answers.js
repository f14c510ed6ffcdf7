/* answers.js - makes answers: sends a conversation, puts what arrives into the message, waits for a busy server. One
 * answer at a time for each conversation. Knows nothing of what is on the screen.
 *
 * What it writes into a message:
 *   content, reasoning   text so far
 *   state                waiting, writing; then done, cut (token limit), stopped (by the reader), failed
 *   notice, detail       why it waits or failed: the page's words, the server's words
 *   tokens, rate, model  where they are known */
import { ApiError, streamAnswer } from './api.js';
import { withFiles } from './files.js';
import { pathTo } from './tree.js';

const MAX_TRIES = 20;
const MAX_WAIT_S = 120; // a server that wants a longer pause is reported, not waited for
const DEFAULT_WAIT_S = 5;
const COMPLETION_TOKENS = 256; // where none are set; that address has 16 as its default, as OpenAI's
const MIN_TIMED_S = 0.05; // a shorter answer is too short for a browser's clock

export function isOpen(message) {
  return message.state === 'waiting' || message.state === 'writing';
}

/* What is sent to either address. */
function commonFields(settings, model) {
  const body = model ? { model } : {};
  for (const name of ['temperature', 'top_p', 'max_tokens', 'seed'])
    if (settings[name] !== null && settings[name] !== undefined)
      body[name] = settings[name];
  return body;
}

/* The request for a message by a model without a chat template: it continues the text so far. */
export function completionBody(conversation, message, settings, model) {
  let prompt = '';
  for (const earlier of pathTo(conversation, message.parent)) {
    const text = withFiles(earlier);
    prompt += (/\S$/.test(prompt) && /^\S/.test(text) ? '\n' : '') + text;
  }
  return { prompt, max_tokens: COMPLETION_TOKENS, ...commonFields(settings, model) };
}

/* The request that asks for a message: what was said before it. Reasoning is not sent back; chat templates drop it. */
export function chatBody(conversation, message, settings, model) {
  const messages = settings.system ? [{ role: 'system', content: settings.system }] : [];
  for (const earlier of pathTo(conversation, message.parent)) {
    const { role } = earlier;
    const content = withFiles(earlier);
    if (role === 'assistant' && content === '')
      continue; // it failed or was stopped before its first word
    if (messages.at(-1)?.role === role)
      messages.at(-1).content += `\n\n${content}`; // many templates want the roles to alternate
    else
      messages.push({ role, content });
  }
  return { messages, ...commonFields(settings, model) };
}

/* What a promise gives, or a rejection as soon as the signal is aborted. */
function orStopped(promise, signal) {
  return Promise.race([promise, new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new DOMException('stopped', 'AbortError')), { once: true });
  })]);
}

function pause(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

export class Answers {
  #runs = new Map(); // conversation id: AbortController
  #changed;
  #ended;

  /* changed(conversation, message) is called after every change, ended(conversation, message) after the last. */
  constructor(changed, ended) {
    this.#changed = changed;
    this.#ended = ended;
  }

  runs(conversation) {
    return this.#runs.has(conversation.id);
  }

  get count() {
    return this.#runs.size;
  }

  stop(conversation) {
    this.#runs.get(conversation.id)?.abort();
  }

  /* options() resolves to {settings, model, key, completes}, once the server has told what it has; completes: the model
   * has no chat template. */
  async make(conversation, message, options) {
    const controller = new AbortController();
    this.#runs.set(conversation.id, controller);
    const { signal } = controller;
    try {
      const { settings, model, key, completes } = await orStopped(options(), signal);
      const body = (completes ? completionBody : chatBody)(conversation, message, settings, model);
      const ask = () => streamAnswer(completes ? 'v1/completions' : 'v1/chat/completions', body, key, signal);
      await this.#try(conversation, message, ask, signal);
    } catch (error) {
      if (error.name === 'AbortError') {
        message.state = 'stopped';
        message.notice = message.detail = '';
      } else {
        message.state = 'failed';
        message.notice = error instanceof ApiError ? error.message : 'The server sent something that is not an answer.';
        message.detail = error instanceof ApiError ? error.detail : String(error.message);
        message.status = error.status ?? null;
        if (error.busy && error.retryAfter !== null)
          message.notice += ` It asks to come back in ${error.retryAfter} seconds.`;
      }
    }
    this.#runs.delete(conversation.id);
    this.#ended(conversation, message);
  }

  async #try(conversation, message, ask, signal) {
    for (let tries = 1;; tries++) {
      try {
        message.notice = '';
        message.state = 'waiting';
        this.#changed(conversation, message);
        return await this.#read(conversation, message, ask());
      } catch (error) {
        const seconds = error.retryAfter ?? DEFAULT_WAIT_S;
        if (!error.busy || tries === MAX_TRIES || seconds > MAX_WAIT_S)
          throw error;
        message.detail = error.detail;
        for (let left = seconds; left > 0; left--) {
          message.notice = `The server is busy. Trying again in ${left} ${left === 1 ? 'second' : 'seconds'}.`;
          this.#changed(conversation, message);
          await orStopped(pause(1), signal);
        }
      }
    }
  }

  async #read(conversation, message, stream) {
    let first = null; // when the first and the last text came
    let last = null;
    let finish = null;
    for await (const chunk of stream) {
      if (chunk.content || chunk.reasoning) {
        last = performance.now();
        first ??= last;
        message.state = 'writing';
        message.detail = '';
      }
      message.reasoning += chunk.reasoning;
      message.content += chunk.content;
      message.model = chunk.model ?? message.model;
      message.tokens = chunk.usage?.completion_tokens ?? message.tokens;
      finish = chunk.finish ?? finish;
      this.#changed(conversation, message);
    }
    const seconds = (last - first) / 1000;
    message.rate = seconds >= MIN_TIMED_S && message.tokens > 1 ? (message.tokens - 1) / seconds : null;
    message.state = finish === 'length' ? 'cut' : 'done';
  }
}
