/* files.js - files as text. Reads what was dropped, pasted or chosen, refuses what is not text or too long, and writes
 * files into the message that is sent. Nothing but their text leaves the browser, and only with the message. */

const MAX_BYTES = 1e6;

export function sizeWords(bytes) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let value = bytes;
  for (; value >= 999.5 && unit + 1 < units.length; unit++)
    value /= 1000;
  return `${unit === 0 ? value : Number(value.toPrecision(3))} ${units[unit]}`;
}

/* Returns {name, text}, or throws an Error whose message says why not. */
export async function readTextFile(file) {
  if (file.size > MAX_BYTES)
    throw new Error(`${file.name} is larger than ${sizeWords(MAX_BYTES)}.`);
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not text in UTF-8.`);
  }
  if (text.includes('\0'))
    throw new Error(`${file.name} is not text.`);
  return { name: file.name, text };
}

/* A message's text with its files before it, each in a fence that is longer than any inside it. */
export function withFiles(message) {
  const parts = (message.files ?? []).map(({ name, text }) => {
    const longest = (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
    const fence = '`'.repeat(longest + 1);
    return `File ${name.replace(/\s+/g, ' ')}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}\n`;
  });
  return [...parts, message.content].join('\n');
}
