/* dom.js - builds nodes. Text becomes text nodes and attributes are set by name, so nothing that a model, a file or the
 * server says can become markup. No file of the page assigns innerHTML. */

const SVG = 'http://www.w3.org/2000/svg';

/* A function is a listener for the event of that name; true is an attribute without a value; false, null and undefined
 * leave it out. */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined)
      continue;
    if (typeof value === 'function')
      node.addEventListener(name, value);
    else if (/^(on|style$|srcdoc$)/i.test(name))
      throw new Error(`attribute ${name} is not for data`);
    else
      node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== false && child !== null && child !== undefined)
      node.append(child);
  return node;
}

export function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/* Strokes on a field of 24 x 24. */
const icons = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  flame: 'M12.5 3c.4 3.3 5.5 5.8 5.5 11 0 4-2.7 7-6 7s-6-2.7-6-6.5c0-2.7 1.5-4.5 2.8-5.8.3 1.6.7 2.5 1.6 3.3.1-3.8.4-6.5 2.1-9z',
  gear: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4',
  theme: 'M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z',
  keyboard: 'M3 7h18v11H3zM7 11h.01M11 11h.01M15 11h.01M8 15h8',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM15 9V4H4v11h5',
  done: 'M5 13l4 4L19 7',
  retry: 'M19 12a7 7 0 1 1-2.3-5.2M19 3v5h-5',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  remove: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  clip: 'M19 11l-7.5 7.5a4.5 4.5 0 0 1-6.4-6.4L13 4.3a3 3 0 0 1 4.2 4.2l-7.7 7.7a1.5 1.5 0 0 1-2.1-2.1L14 7.5',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  down: 'M12 5v14M6 13l6 6 6-6',
  close: 'M6 6l12 12M18 6L6 18',
};

export function icon(name) {
  return svg('svg', { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: icons[name] }));
}

/* A button that shows an icon; its label is what a screen reader says and the pointer shows. */
export function iconButton(name, label, click, attributes) {
  return element('button',
    { type: 'button', class: 'icon-button', 'aria-label': label, title: label, click, ...attributes },
    icon(name));
}

/* Copies text. Where the page is not served from loopback or over TLS browsers have no clipboard interface; there the
 * older command is used on a selection. Returns whether it worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', { class: 'hidden-label', 'aria-hidden': 'true', tabindex: '-1' });
    const focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    focused?.focus?.();
    return copied;
  }
}

/* A button that copies what text() returns, and says so. */
export function copyButton(label, text) {
  const button = iconButton('copy', label, async () => {
    const copied = await copyText(text());
    button.replaceChildren(icon(copied ? 'done' : 'close'));
    button.setAttribute('aria-label', copied ? 'Copied' : 'Could not copy');
    setTimeout(() => {
      button.replaceChildren(icon('copy'));
      button.setAttribute('aria-label', label);
    }, 1500);
  });
  return button;
}
