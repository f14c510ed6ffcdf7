/* transcript.js - shows the chosen messages of a conversation. A view for each message is kept by id, so that an answer
 * that grows changes its own nodes alone; the browser's next frame draws what arrived since the last. */
import { byId, copyButton, element, iconButton } from './dom.js';
import { isOpen } from './answers.js';
import { sizeWords } from './files.js';
import { showMarkdown } from './markdown.js';
import { chosenPath, siblings } from './tree.js';

const NEAR_END_PX = 80; // whoever is this near to the end follows an answer as it grows

function stateWords(message) {
  if (message.state === 'stopped')
    return 'stopped';
  if (message.state === 'cut')
    return 'cut off at the token limit';
  return '';
}

/* "40 tokens, 64.8 tokens/s, stopped" */
export function statWords(message) {
  const rate = message.rate ? Number(message.rate.toPrecision(3)) : null;
  return [
    message.tokens ? `${message.tokens} ${message.tokens === 1 ? 'token' : 'tokens'}` : '',
    rate ? `${message.rate >= 1000 ? Math.round(message.rate) : rate} tokens/s` : '',
    stateWords(message),
  ].filter(Boolean).join(', ');
}

class MessageView {
  constructor(message, commands) {
    this.message = message;
    this.commands = commands;
    this.body = element('div', { class: message.role === 'user' ? 'said' : 'answer' });
    this.foot = element('div', { class: 'message-foot small' });
    this.node = element('article', { class: `message ${message.role}`, id: `message-${message.id}` },
      element('h2', { class: 'hidden-label' }, message.role === 'user' ? 'You' : 'Answer'), this.body, this.foot);
    if (message.role === 'user')
      this.#showSaid();
    else
      this.#makeAnswer();
  }

  #showSaid() {
    const files = (this.message.files ?? []).map((file) =>
      element('details', { class: 'file' },
        element('summary', {}, `${file.name} (${sizeWords(new Blob([file.text]).size)})`),
        element('pre', { tabindex: '0' }, file.text)));
    this.body.replaceChildren(...files, this.message.content === '' ? '' : element('p', {}, this.message.content));
  }

  #makeAnswer() {
    this.reasoningTitle = element('summary');
    this.reasoningText = element('div', { class: 'reasoning-text' });
    this.reasoning = element('details', { class: 'reasoning' }, this.reasoningTitle, this.reasoningText);
    this.text = element('div', { class: 'text' });
    this.notice = element('div', { class: 'notice' });
    this.body.append(this.reasoning, this.text, this.notice);
  }

  /* Draws an answer as it is now. */
  draw() {
    if (this.message.role === 'user')
      return;
    const { content, reasoning, state, notice, detail } = this.message;
    const open = isOpen(this.message);
    this.node.setAttribute('aria-busy', String(open));
    this.node.classList.toggle('open', open);
    this.reasoning.hidden = reasoning === '';
    this.reasoningTitle.textContent = open && content === '' ? 'Thinking …' : 'Reasoning';
    if (reasoning !== this.shownReasoning)
      this.reasoningText.textContent = this.shownReasoning = reasoning;
    showMarkdown(this.text, content);
    this.notice.classList.toggle('error', state === 'failed');
    this.notice.hidden = !notice && !(state === 'waiting' || (state === 'done' && content === ''));
    const words = notice || (state === 'waiting' ? 'Waiting for the first token …' : 'The model said nothing.');
    const shown = `${words}\n${detail ?? ''}\n${state}`;
    if (shown !== this.shown) {
      this.shown = shown;
      this.notice.replaceChildren(element('p', {}, words));
      if (detail)
        this.notice.append(element('p', { class: 'detail' }, detail));
      if (this.message.status === 401)
        this.notice.append(element('button',
          { type: 'button', class: 'plain', click: this.commands.askKey }, 'Enter a key'));
    }
  }

  /* Draws the buttons under a message. With busy, those that would start another answer are left out. */
  drawFoot(conversation, busy) {
    const { message, commands } = this;
    const all = siblings(conversation, message.id);
    const at = all.indexOf(message.id);
    const parts = [];
    if (all.length > 1) {
      parts.push(element('span', { class: 'branches', role: 'group', 'aria-label': 'Alternatives' },
        iconButton('left', 'Alternative before this one', () => commands.choose(all[at - 1]), { disabled: at === 0 }),
        element('span', {}, `${at + 1} / ${all.length}`),
        iconButton('right', 'Alternative after this one', () => commands.choose(all[at + 1]),
          { disabled: at + 1 === all.length })));
    }
    if (!isOpen(message)) {
      if (message.content !== '')
        parts.push(copyButton('Copy this message', () => message.content));
      if (!busy && message.role === 'user')
        parts.push(iconButton('edit', 'Edit this message', () => this.edit()));
      if (!busy && message.role === 'assistant')
        parts.push(iconButton('retry', 'Answer again', () => commands.retry(message)));
      parts.push(element('span', { class: 'stats' }, statWords(message)));
    }
    this.foot.replaceChildren(...parts);
  }

  edit() {
    const field = element('textarea', { 'aria-label': 'Edit the message', rows: '3' });
    const close = () => {
      this.#showSaid();
      this.node.classList.remove('editing');
      this.foot.querySelector('[aria-label^="Edit"]')?.focus();
    };
    const send = () => {
      if (field.value.trim() === '' && !(this.message.files ?? []).length)
        return;
      close();
      this.commands.edit(this.message, field.value);
    };
    field.value = this.message.content;
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        send();
      }
    });
    this.node.classList.add('editing');
    this.body.replaceChildren(field, element('div', { class: 'edit-buttons' },
      element('button', { type: 'button', class: 'plain', click: close }, 'Cancel'),
      element('button', { type: 'button', class: 'strong', click: send }, 'Send')));
    field.focus();
  }
}

export class Transcript {
  #views = new Map(); // message id: MessageView
  #conversation = null;
  #commands;
  #frame = null;
  #follows = true;

  /* commands: choose(id), retry(message), edit(message, text), askKey() */
  constructor(commands) {
    this.#commands = commands;
    const area = byId('scroll');
    area.addEventListener('scroll', () => {
      this.#follows = area.scrollHeight - area.scrollTop - area.clientHeight < NEAR_END_PX;
      byId('to-end').hidden = this.#follows;
    }, { passive: true });
    byId('to-end').addEventListener('click', () => this.toEnd());
  }

  toEnd() {
    const area = byId('scroll');
    area.scrollTop = area.scrollHeight;
    this.#follows = true;
    byId('to-end').hidden = true;
  }

  /* Shows a conversation; views of messages that stay are reused. */
  show(conversation, busy) {
    if (conversation !== this.#conversation) {
      this.#views.clear();
      this.#follows = true;
    }
    this.#conversation = conversation;
    const path = chosenPath(conversation);
    const nodes = path.map((message) => {
      let view = this.#views.get(message.id);
      if (!view) {
        view = new MessageView(message, this.#commands);
        this.#views.set(message.id, view);
      }
      view.draw();
      view.drawFoot(conversation, busy);
      return view.node;
    });
    const list = byId('messages');
    if (nodes.length !== list.childNodes.length || nodes.some((node, i) => node !== list.childNodes[i]))
      list.replaceChildren(...nodes);
    byId('welcome').hidden = path.length > 0;
    if (this.#follows)
      this.toEnd();
  }

  /* Draws the answers that grow, at the next frame. A page in the background has none until it is looked at. */
  changed() {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      for (const view of this.#views.values())
        if (isOpen(view.message))
          view.draw();
      if (this.#follows)
        this.toEnd();
    });
  }

  editLast() {
    const views = chosenPath(this.#conversation).map((message) => this.#views.get(message.id));
    views.findLast((view) => view?.message.role === 'user')?.edit();
  }
}
