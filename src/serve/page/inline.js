/* inline.js - Markdown to nodes, inside a block: code, emphasis, links, line breaks. Emphasis follows CommonMark's
 * delimiter runs. A link becomes one only if its address begins with http:, https: or mailto:; anything else stays text.
 * An image becomes a link to it, as the page asks no other server for anything. */
import { element } from './dom.js';

const ADDRESS = /^(?:https?:\/\/[^\s<>"'`\\\u0000-\u0020]+|mailto:[^\s<>"'`\\\u0000-\u0020]+)$/i;
const BARE = /https?:\/\/[^\s<>"'`\\|]{1,2000}/iy;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/iy;
const TARGET = /\([ \n]{0,4}(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:[ \n]{1,4}(?:"[^"\n]*"|'[^'\n]*'))?[ \n]{0,4}\)/y;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const MAX_LINK_TEXT = 2000;
const MAX_OPEN = 32; // emphasis inside emphasis; browsers lay out by recursion

function linkOrText(address, content, text) {
  if (!ADDRESS.test(address))
    return [text];
  return [element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, content)];
}

/* Matches a sticky expression at a place. */
function matchAt(expression, text, at) {
  expression.lastIndex = at;
  return expression.exec(text);
}

/* A bare address ends before punctuation that belongs to the sentence, and before a ) that it did not open. */
function trimAddress(address) {
  for (;;) {
    const last = address.at(-1);
    const open = last === ')' && address.split('(').length < address.split(')').length;
    if (!/[.,:;!?*_~\]]/.test(last) && !open)
      return address;
    address = address.slice(0, -1);
  }
}

/* Where the ] that belongs to the [ before `at` is, or -1. */
function closingBracket(text, at) {
  const end = Math.min(text.length, at + MAX_LINK_TEXT);
  for (let depth = 1; at < end; at++) {
    if (text[at] === '\\')
      at++;
    else if (text[at] === '[')
      depth++;
    else if (text[at] === ']' && --depth === 0)
      return at;
  }
  return -1;
}

/* Cuts text into pieces: {nodes} that are finished, {text}, and runs {mark, count, opens, closes}. Inside the text of a
 * link there are no links, and an image is its description. */
function pieces(text, insideLink) {
  const found = [];
  let plain = '';
  const noTicks = new Set(); // lengths of backtick runs that nothing closes further on
  let noBracket = false; // nothing closes a [ within reach; what follows is too long to look again and again
  const push = (piece) => {
    if (plain !== '')
      found.push({ text: plain });
    plain = '';
    found.push(piece);
  };
  for (let at = 0; at < text.length;) {
    const c = text[at];
    let match;
    if (c === '\\' && at + 1 < text.length && (text[at + 1] === '\n' || /[!-/:-@[-`{-~]/.test(text[at + 1]))) {
      if (text[at + 1] === '\n')
        push({ nodes: [element('br')] });
      else
        plain += text[at + 1];
      at += 2;
    } else if (c === '\n') {
      plain = plain.trimEnd();
      push({ nodes: [element('br')] });
      for (at++; text[at] === ' '; at++);
    } else if (c === '`') {
      const ticks = matchAt(/`+/y, text, at)[0];
      const begin = at + ticks.length;
      let end = noTicks.has(ticks.length) ? -1 : begin;
      while (end >= 0) { // the next run of exactly this length
        end = text.indexOf(ticks, end);
        if (end < 0)
          break;
        const run = matchAt(/`+/y, text, end)[0].length;
        if (run === ticks.length)
          break;
        end += run;
      }
      if (end < 0) {
        noTicks.add(ticks.length);
        plain += ticks;
        at = begin;
      } else {
        const inner = text.slice(begin, end).replaceAll('\n', ' ');
        const trimmed = /^ .*\S.* $/s.test(inner) ? inner.slice(1, -1) : inner;
        push({ nodes: [element('code', {}, trimmed)] });
        at = end + ticks.length;
      }
    } else if (!noBracket && ((c === '[' && !insideLink) || (c === '!' && text[at + 1] === '['))) {
      const begin = at + (c === '!' ? 2 : 1);
      const end = closingBracket(text, begin);
      noBracket = end < 0 && text.length - begin > MAX_LINK_TEXT;
      match = end >= 0 && text[end + 1] === '(' ? matchAt(TARGET, text, end + 1) : null;
      if (match) {
        const whole = text.slice(at, TARGET.lastIndex);
        const after = TARGET.lastIndex;
        const label = text.slice(begin, end);
        const content = c === '!' ? [`[image: ${label || 'without a description'}]`] : inline(label, true);
        const address = (match[1] ?? match[2]).replace(/\\([!-/:-@[-`{-~])/g, '$1');
        push({ nodes: insideLink ? content : linkOrText(address, content, whole) });
        at = after;
      } else {
        plain += text.slice(at, begin);
        at = begin;
      }
    } else if (c === '<' && !insideLink && (match = matchAt(ANGLE, text, at))) {
      push({ nodes: linkOrText(match[1], [match[1].replace(/^mailto:/i, '')], match[0]) });
      at += match[0].length;
    } else if ((c === 'h' || c === 'H') && !insideLink && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? ' ') &&
               (match = matchAt(BARE, text, at))) {
      const address = trimAddress(match[0]);
      push({ nodes: linkOrText(address, [address], address) });
      at += address.length;
    } else if (c === '*' || c === '_' || (c === '~' && text[at + 1] === '~')) {
      let end = at;
      while (text[end] === c)
        end++;
      push(runOf(text, at, end));
      at = end;
    } else {
      plain += c;
      at++;
    }
  }
  if (plain !== '')
    found.push({ text: plain });
  return found;
}

/* Whether the run text[at..end) may open and close emphasis (CommonMark: left and right flanking). */
function runOf(text, at, end) {
  const before = text[at - 1] ?? ' ';
  const after = text[end] ?? ' ';
  const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
  const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
  const word = text[at] === '_'; // not inside a word, so that snake_case stays
  return {
    mark: text[at], count: end - at,
    opens: left && (!word || !right || PUNCTUATION.test(before)),
    closes: right && (!word || !left || PUNCTUATION.test(after)),
  };
}

/* Pairs runs, the innermost first. What stays unpaired is text. */
function pair(list) {
  const out = []; // nodes, strings and open runs
  const open = []; // places of runs in out
  for (const piece of list) {
    if (piece.mark === undefined) {
      out.push(...(piece.nodes ?? [piece.text]));
      continue;
    }
    while (piece.closes && piece.count > 0) {
      let at = open.length - 1;
      while (at >= 0 && out[open[at]].mark !== piece.mark)
        at--;
      if (at < 0)
        break;
      const opener = out[open[at]];
      const count = opener.count >= 2 && piece.count >= 2 ? 2 : 1;
      if (piece.mark === '~' && count < 2)
        break;
      const tag = piece.mark === '~' ? 'del' : count === 2 ? 'strong' : 'em';
      const inside = out.splice(open[at] + 1).map(asNode);
      out.push(element(tag, {}, inside));
      open.length = at + 1;
      opener.count -= count;
      piece.count -= count;
      if (opener.count === 0) {
        out.splice(open[at], 1);
        open.length = at;
      }
    }
    if (piece.count > 0) {
      if (piece.opens && open.length < MAX_OPEN)
        open.push(out.length);
      out.push(piece);
    }
  }
  return out.map(asNode);
}

function asNode(item) {
  return item.mark === undefined || item instanceof Node ? item : item.mark.repeat(item.count);
}

/* The nodes and strings of a text. */
export function inline(text, insideLink = false) {
  return pair(pieces(text.trimEnd(), insideLink));
}
