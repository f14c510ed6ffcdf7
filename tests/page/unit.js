/* unit.js - checks of the page's modules that need a browser but no server: Markdown, the event parser, the tree, numbers.
 * drive.py imports it into the page; run() returns {passed, failures}. Expected values are written out by hand. */
import { retrySeconds } from '../api.js';
import { chatBody, completionBody } from '../answers.js';
import { element } from '../dom.js';
import { sizeWords, withFiles } from '../files.js';
import { firedShare, percentWords } from '../live.js';
import { markdown, showMarkdown } from '../markdown.js';
import { readNumber } from '../settings.js';
import { EventParser } from '../sse.js';
import { append, choose, chosenPath, newConversation, removeMessage, ROOT, siblings, titleOf } from '../tree.js';

let passed = 0;
const failures = [];

function same(what, got, expected) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a === b)
    passed++;
  else
    failures.push(`${what}: got ${a}, expected ${b}`);
}

/* Markdown as HTML, without the heads of code blocks. */
function html(text) {
  const box = element('div', {}, markdown(text));
  for (const head of box.querySelectorAll('.code-head'))
    head.remove();
  for (const node of box.querySelectorAll('[tabindex]'))
    node.removeAttribute('tabindex');
  for (const link of box.querySelectorAll('a')) {
    link.removeAttribute('target');
    link.removeAttribute('rel');
  }
  return box.innerHTML;
}

const markdownCases = [
  ['plain', '<p>plain</p>'],
  ['a\nb', '<p>a<br>b</p>'],
  ['# A #\n### B', '<h3 class="level-1">A</h3><h5 class="level-3">B</h5>'],
  ['#no', '<p>#no</p>'],
  ['*a* **b** ***c*** ~~d~~ `e`',
    '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <code>e</code></p>'],
  ['snake_case_word and _yes_', '<p>snake_case_word and <em>yes</em></p>'],
  ['2 * 3 * 4', '<p>2 * 3 * 4</p>'],
  ['**a *b* c**', '<p><strong>a <em>b</em> c</strong></p>'],
  ['*open', '<p>*open</p>'],
  ['\\*a\\* \\<b>', '<p>*a* &lt;b&gt;</p>'],
  ['`` a`b `` `x', '<p><code>a`b</code> `x</p>'],
  ['- a\n- b', '<ul><li>a</li><li>b</li></ul>'],
  ['- a\n\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
  ['1. a\n2. b', '<ol><li>a</li><li>b</li></ol>'],
  ['3) a', '<ol start="3"><li>a</li></ol>'],
  ['1. a\n  - b\n2. c', '<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>'],
  ['- a\n  - b\n    - c\n- d', '<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>'],
  ['- a\n  ```\n  x\n  ```', '<ul><li>a<div class="code"><pre><code>x</code></pre></div></li></ul>'],
  ['In\n1984. it was', '<p>In<br>1984. it was</p>'],
  ['- [x] a', '<ul><li class="task"><input type="checkbox" disabled="" checked="" aria-label="done">a</li></ul>'],
  ['> a\n> > b', '<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>'],
  ['a\n\n---\nb', '<p>a</p><hr><p>b</p>'],
  ['```c\n<b> *x*\n```\nz', '<div class="code"><pre><code>&lt;b&gt; *x*</code></pre></div><p>z</p>'],
  ['```\nopen', '<div class="code"><pre><code>open</code></pre></div>'],
  ['~~~~\n```\n~~~\n~~~~', '<div class="code"><pre><code>```\n~~~</code></pre></div>'],
  ['|a|b|\n|-|:-:|\n|1|`x|`\\||', '<div class="table"><table><thead><tr><th>a</th><th class="center">b</th></tr></thead>' +
    '<tbody><tr><td>1</td><td class="center">`x</td></tr></tbody></table></div>'],
  ['text\na | b\n--|--\n1 | 2\\|3', '<p>text</p><div class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead>' +
    '<tbody><tr><td>1</td><td>2|3</td></tr></tbody></table></div>'],
  ['a | b', '<p>a | b</p>'],
  ['[a](https://x.org/y "t") <mailto:a@b.c>', '<p><a href="https://x.org/y">a</a> <a href="mailto:a@b.c">a@b.c</a></p>'],
  ['see https://x.org/a_(b), or (https://y.org).',
    '<p>see <a href="https://x.org/a_(b)">https://x.org/a_(b)</a>, or (<a href="https://y.org">https://y.org</a>).</p>'],
  ['[a [b](http://c.d) e](http://f.g)', '<p><a href="http://f.g">a [b](http://c.d) e</a></p>'],
  ['![alt](http://x.org/i.png)', '<p><a href="http://x.org/i.png">[image: alt]</a></p>'],
  ['[![i](http://a.b/c.png)](http://l.m)', '<p><a href="http://l.m">[image: i]</a></p>'],
  ['[a](javascript:x)', '<p>[a](javascript:x)</p>'],
  ['[a](//x.org) [b](/c) [d](data:,x)', '<p>[a](//x.org) [b](/c) [d](data:,x)</p>'],
  ['<img src=x onerror=y>', '<p>&lt;img src=x onerror=y&gt;</p>'],
  ['a\r\nb\rc', '<p>a<br>b<br>c</p>'],
  ['', ''],
];

/* While an answer arrives, each prefix is shown; in the end it must look as if it had been shown at once. */
function checkGrowth() {
  const text = markdownCases.map(([source]) => source).join('\n\n');
  const grown = element('div');
  for (let end = 0; end <= text.length; end += 3)
    showMarkdown(grown, text.slice(0, end));
  showMarkdown(grown, text);
  same('an answer that grew', grown.innerHTML, element('div', {}, markdown(text)).innerHTML);
  const first = grown.firstChild;
  showMarkdown(grown, `${text}\n\nmore`);
  same('the first block stays the same node', grown.firstChild === first, true);
}

/* Texts that make careless parsers slow. 2 s is far above what each takes (a quarter of a second on a slow machine) and
 * far below what quadratic time would need. */
function checkTime() {
  const hard = {
    brackets: '['.repeat(1e5), images: '!['.repeat(1e5), openers: '*a '.repeat(5e4) + 'b_ '.repeat(5e4),
    nested: '*a '.repeat(1e4) + 'a* '.repeat(1e4), quotes: '>'.repeat(1e5), bullets: '- '.repeat(3e4),
    spaces: `#${' '.repeat(1e5)}x`, fence: `\`\`\`${'a'.repeat(1e5)}\``, bars: `${'|'.repeat(5e4)}\n`.repeat(2),
    address: `http://${')'.repeat(1e5)}`, targets: `[a](${' '.repeat(100)}`.repeat(2000),
  };
  for (const [name, text] of Object.entries(hard)) {
    const begin = performance.now();
    element('div', {}, markdown(text));
    const seconds = (performance.now() - begin) / 1000;
    same(`${name} in less than 2 s`, seconds < 2 || seconds, true);
  }
}

function parsed(pieces) {
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.feed(piece));
}

/* A stream with every line ending, in two pieces cut at every byte and in single bytes. */
function checkEvents() {
  const text = '\ufeffdata: {"a":"Ω火🔥"}\n\n: comment\r\nevent: ping\r\ndata:x\r\ndata:  y\r\n\r\ndata\rid: 7\r\r' +
    'event: none\n\nretry: 3\ndata: [DONE]\n\ndata: unfinished';
  const expected = [
    { type: 'message', data: '{"a":"Ω火🔥"}' }, { type: 'ping', data: 'x\n y' }, { type: 'message', data: '' },
    { type: 'message', data: '[DONE]' }];
  const bytes = new TextEncoder().encode(text);
  for (let cut = 0; cut <= bytes.length; cut++)
    same(`events, cut at ${cut}`, parsed([bytes.slice(0, cut), bytes.slice(cut)]), expected);
  same('events, byte by byte', parsed([...bytes].map((byte) => Uint8Array.of(byte))), expected);
  same('events, with empty pieces', parsed([...bytes].flatMap((byte) => [new Uint8Array(), Uint8Array.of(byte)])), expected);
}

function checkTree() {
  const conversation = newConversation();
  same('title of an empty one', titleOf(conversation), 'New conversation');
  const a = append(conversation, ROOT,
    { role: 'user', content: 'first line\nsecond', files: [{ name: 'f.txt', text: 'x\n' }] });
  const b = append(conversation, a.id, { role: 'assistant', content: 'one' });
  const c = append(conversation, a.id, { role: 'assistant', content: 'two' });
  const d = append(conversation, c.id, { role: 'user', content: 'more' });
  const e = append(conversation, d.id, { role: 'assistant', content: '' });
  const path = () => chosenPath(conversation).map((message) => message.content);
  same('path', path(), ['first line\nsecond', 'two', 'more', '']);
  same('siblings', siblings(conversation, b.id), [b.id, c.id]);
  choose(conversation, b.id);
  same('path of the other branch', path(), ['first line\nsecond', 'one']);
  choose(conversation, c.id);
  same('title', titleOf(conversation), 'first line');
  const settings = { temperature: 0, top_p: null, max_tokens: 9, seed: null, system: 'Be brief.' };
  same('request', chatBody(conversation, e, settings, 'm'), { messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'File f.txt:\n```\nx\n```\n\nfirst line\nsecond' },
    { role: 'assistant', content: 'two' }, { role: 'user', content: 'more' }],
    model: 'm', temperature: 0, max_tokens: 9 });
  const f = append(conversation, e.id, { role: 'user', content: 'again' });
  same('roles alternate behind an empty answer',
    chatBody(conversation, append(conversation, f.id, { role: 'assistant', content: '' }), {}, null).messages.at(-1),
    { role: 'user', content: 'more\n\nagain' });
  same('a text to continue', completionBody(conversation, d, { max_tokens: null, seed: 3 }, null),
    { prompt: 'File f.txt:\n```\nx\n```\n\nfirst line\nsecond\ntwo', max_tokens: 256, seed: 3 });
  removeMessage(conversation, c.id);
  same('what is left', [path(), Object.keys(conversation.messages).length], [['first line\nsecond', 'one'], 3]);
}

function checkNumbers() {
  same('sizes', [0, 999, 1000, 917400, 1640000, 348900000, 999500].map(sizeWords),
    ['0 bytes', '999 bytes', '1 kB', '917 kB', '1.64 MB', '349 MB', '1 MB']);
  same('shares', [null, 0, 0.0312, 0.12, 1].map(percentWords), ['not known', '0 %', '3.1 %', '12 %', '100 %']);
  const layers = [{ neurons: 100, fired: 10 }, { neurons: 300, fired: 30 }, { neurons: 5, fired: null }];
  same('share of all', firedShare(layers), 0.1);
  same('share of nothing', firedShare([{ neurons: null, fired: null }]), null);
  same('Retry-After', [retrySeconds('5'), retrySeconds(null), retrySeconds('soon'),
    retrySeconds('Thu, 01 Jan 1970 00:00:10 GMT', 3000)], [5, null, null, 7]);
  const row = { words: 'Seed', min: 0, max: 10, whole: true };
  same('numbers', [readNumber(row, ''), readNumber(row, ' 7 ')], [null, 7]);
  for (const bad of ['1.5', '-1', '11', 'x', '1e999'])
    try {
      same(`refused: ${bad}`, readNumber(row, bad), 'an error');
    } catch (error) {
      same(`refused: ${bad}`, error.message, 'Seed must be a whole number from 0 to 10.');
    }
  same('a fence longer than those inside', withFiles({ content: 'q', files: [{ name: 'a b', text: '````' }] }),
    'File a b:\n`````\n````\n`````\n\nq');
  for (const name of ['onclick', 'ONLOAD', 'style', 'srcdoc'])
    try {
      element('p', { [name]: 'x' });
      same(`attribute ${name}`, 'set', 'refused');
    } catch {
      passed++;
    }
}

export function run() {
  for (const [source, expected] of markdownCases)
    same(JSON.stringify(source), html(source), expected);
  checkGrowth();
  checkTime();
  checkEvents();
  checkTree();
  checkNumbers();
  return { passed, failures };
}
