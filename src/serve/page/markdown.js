/* markdown.js - Markdown to nodes: blocks (inline.js has what lies inside a line). The part of CommonMark that models
 * write, with tables and task lists; HTML is shown as text. Nodes are built by element() alone and links are checked in
 * inline.js, so a hostile text can do nothing; depth is bounded and time is linear in the text but for nesting.
 * Not CommonMark: no indented code, no headings by underlining (a line of --- is a rule), a newline is a line break. */
import { copyButton, element } from './dom.js';
import { inline } from './inline.js';

const MAX_DEPTH = 12; // quotes and lists inside each other; what is deeper is text

/* None of these can take more than linear time: no two neighbouring parts match the same character. */
const FENCE = /^( {0,12})(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,12})([-*+]|(\d{1,9})[.)])(?:([ \t]+)(.*)|)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function blank(line) {
  return line.trim() === '';
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

/* Info behind backticks has none itself: such a line is text with code in it. */
function openingFence(line) {
  const found = FENCE.exec(line);
  return found !== null && (found[2][0] === '~' || !found[3].includes('`')) ? found : null;
}

function headingText(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (trimmed[end - 1] === '#')
    end--;
  return end === 0 || /\s/.test(trimmed[end - 1]) ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function tableBegins(lines, at) {
  return lines[at].includes('|') && at + 1 < lines.length && TABLE_RULE.test(lines[at + 1]) &&
    cells(lines[at]).length === cells(lines[at + 1]).length;
}

/* Whether a line begins a block that ends a paragraph before it. An ordered list does only with number 1, so that a year
 * at the beginning of a line does not become a list. */
function interrupts(line) {
  const item = ITEM.exec(line);
  return openingFence(line) !== null || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
    (item !== null && item[5] && (item[3] === undefined || item[3] === '1'));
}

/* Splits lines into blocks: {kind, lines, ...}. lines are without the block's own marks. */
function split(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const begin = at;
    const line = lines[at];
    let found;
    if (blank(line)) {
      at++;
      continue;
    } else if ((found = openingFence(line))) {
      const end = new RegExp(`^ {0,12}${found[2][0]}{${found[2].length},}[ \\t]*$`);
      for (at++; at < lines.length && !end.test(lines[at]); at++);
      const strip = new RegExp(`^ {0,${found[1].length}}`);
      blocks.push({ kind: code, language: found[3].trim().split(/\s/)[0],
                    lines: lines.slice(begin + 1, at).map((l) => l.replace(strip, '')) });
      at++; // the closing fence; an unclosed one ends with the text
    } else if ((found = HEADING.exec(line))) {
      blocks.push({ kind: heading, level: found[1].length, lines: [headingText(found[2] ?? '')] });
      at++;
    } else if (RULE.test(line)) {
      blocks.push({ kind: rule, lines: [] });
      at++;
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
      for (; at < lines.length && !blank(lines[at]) && (QUOTE.test(lines[at]) || !interrupts(lines[at])); at++);
      blocks.push({ kind: quote, lines: lines.slice(begin, at).map((l) => l.replace(QUOTE, '')) });
    } else if (ITEM.test(line) && depth < MAX_DEPTH) {
      at = splitList(lines, at, blocks);
    } else if (tableBegins(lines, at)) {
      for (at += 2; at < lines.length && !blank(lines[at]) && lines[at].includes('|'); at++);
      blocks.push({ kind: table, lines: lines.slice(begin, at) });
    } else {
      for (at++; at < lines.length && !blank(lines[at]) && !interrupts(lines[at]) && !tableBegins(lines, at); at++);
      blocks.push({ kind: paragraph, lines: lines.slice(begin, at) });
    }
    blocks.at(-1).source = lines.slice(begin, at).join('\n');
  }
  return blocks;
}

/* A list begins at lines[at]: its items are those with the same kind of mark, each with the lines that are indented by two
 * or more than its mark (models indent by two where CommonMark wants three). Returns the line after the list. */
function splitList(lines, at, blocks) {
  const first = ITEM.exec(lines[at]);
  const kindOf = (item) => (item[3] === undefined ? item[2] : item[2].at(-1));
  const items = [];
  let loose = false;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (item === null || kindOf(item) !== kindOf(first) || RULE.test(lines[at]))
      break;
    const space = item[4] === undefined || item[4].length > 4 ? 1 : item[4].length;
    const width = item[1].length + item[2].length + space;
    const own = [item[5] ?? ''];
    let empty = false; // the line before is blank
    for (at++; at < lines.length; at++) {
      if (blank(lines[at])) {
        empty = true;
        own.push('');
      } else if (indentOf(lines[at]) >= item[1].length + 2) {
        const inner = lines[at].slice(Math.min(width, indentOf(lines[at])));
        loose ||= empty && !ITEM.test(inner);
        empty = false;
        own.push(inner);
      } else if (!empty && !interrupts(lines[at]) && !ITEM.test(lines[at])) {
        own.push(lines[at]); // a paragraph goes on without indentation
      } else {
        break;
      }
    }
    const next = at < lines.length ? ITEM.exec(lines[at]) : null;
    loose ||= empty && next !== null && kindOf(next) === kindOf(first);
    items.push(own);
  }
  blocks.push({ kind: list, start: first[3], loose, items, lines: [] });
  return at;
}

/* The cells of a line of a table; \| is a bar inside a cell. */
function cells(line) {
  const found = line.trim().replace(/^\|/, '').match(/(?:\\.|[^|\\])+|\||\\/g) ?? [];
  const row = [''];
  for (const piece of found) {
    if (piece === '|')
      row.push('');
    else
      row[row.length - 1] += piece.replaceAll('\\|', '|');
  }
  if (row.length > 1 && row.at(-1).trim() === '')
    row.pop();
  return row.map((cell) => cell.trim());
}

function paragraph(block) {
  return element('p', {}, inline(block.lines.map((line) => line.trimStart()).join('\n')));
}

/* The page has headings of its own above those of an answer, so they begin at h3. */
function heading(block) {
  return element(`h${Math.min(block.level + 2, 6)}`, { class: `level-${block.level}` }, inline(block.lines[0]));
}

function rule() {
  return element('hr');
}

function code(block) {
  const text = block.lines.join('\n');
  return element('div', { class: 'code' },
    element('div', { class: 'code-head small' },
      element('span', {}, block.language || 'text'),
      copyButton('Copy this code', () => text)),
    element('pre', { tabindex: '0' }, element('code', {}, text)));
}

function quote(block, depth) {
  return element('blockquote', {}, nodes(block.lines, depth + 1));
}

function list(block, depth) {
  const items = block.items.map((lines) => {
    const task = /^\[([ xX])\][ \t]+/.exec(lines[0]);
    const own = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
    const content = split(own, depth + 1).map((inner) =>
      (inner.kind === paragraph && !block.loose ? [...paragraph(inner).childNodes] : inner.kind(inner, depth + 1)));
    return element('li', { class: task && 'task' },
      task && element('input', { type: 'checkbox', disabled: true, checked: task[1] !== ' ',
                                 'aria-label': task[1] === ' ' ? 'open' : 'done' }),
      content);
  });
  if (block.start === undefined)
    return element('ul', {}, items);
  return element('ol', { start: block.start === '1' ? null : block.start }, items);
}

function table(block) {
  const align = cells(block.lines[1]).map((cell) =>
    (/^:.*:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'right' : null));
  const row = (line, tag) => {
    const found = cells(line);
    return element('tr', {}, align.map((side, i) => element(tag, { class: side }, inline(found[i] ?? ''))));
  };
  return element('div', { class: 'table', tabindex: '0' },
    element('table', {},
      element('thead', {}, row(block.lines[0], 'th')),
      element('tbody', {}, block.lines.slice(2).map((line) => row(line, 'td')))));
}

function nodes(lines, depth) {
  return split(lines, depth).map((block) => block.kind(block, depth));
}

function linesOf(text) {
  return text.replace(/\r\n?/g, '\n').replace(/^\t+/gm, (tabs) => '    '.repeat(tabs.length)).split('\n');
}

export function markdown(text) {
  return nodes(linesOf(text), 0);
}

const sources = new WeakMap(); // a container's blocks, as they were last shown

/* Shows a text in a container and builds only the blocks that changed since the last call: while an answer arrives,
 * that is the last one, so what a reader has selected further up stays selected. */
export function showMarkdown(container, text) {
  const blocks = split(linesOf(text), 0);
  const shown = sources.get(container) ?? [];
  const same = (block, i) => shown[i] === `${block.kind.name} ${block.source}`;
  let at = 0;
  while (at < blocks.length && same(blocks[at], at))
    at++;
  while (container.childNodes.length > at)
    container.lastChild.remove();
  for (const block of blocks.slice(at))
    container.append(block.kind(block, 0));
  sources.set(container, blocks.map((block) => `${block.kind.name} ${block.source}`));
}
