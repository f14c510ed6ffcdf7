/* conversations.js - the list of conversations: open, new, rename, delete with a way back, export as JSON. */
import { byId, element, iconButton } from './dom.js';
import { titleOf } from './tree.js';

/* Hands a conversation to the reader as a file. */
function exportFile(conversation) {
  const text = JSON.stringify({ format: 'hearth-conversation-1', ...conversation }, null, 2);
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const name = titleOf(conversation).replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '') || 'conversation';
  element('a', { href: url, download: `${name}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export class ConversationList {
  #commands;
  #renaming = null;
  #arguments = null;

  /* commands: open(conversation), rename(conversation, title), remove(conversation) */
  constructor(commands) {
    this.#commands = commands;
  }

  /* running(conversation) tells whether an answer is being made in it. */
  show(conversations, current, running) {
    this.#arguments = [conversations, current, running];
    byId('conversation-list').replaceChildren(...conversations.map((conversation) =>
      this.#row(conversation, conversation === current, running(conversation))));
    byId('no-conversations').hidden = conversations.length > 0;
  }

  #again() {
    this.show(...this.#arguments);
  }

  #row(conversation, isCurrent, isRunning) {
    if (conversation === this.#renaming)
      return element('li', { class: 'current' }, this.#renameField(conversation));
    const title = titleOf(conversation);
    return element('li', { class: isCurrent && 'current' },
      element('button', { type: 'button', class: 'conversation', 'aria-current': isCurrent && 'true', title,
                click: () => this.#commands.open(conversation) },
        element('span', {}, title),
        isRunning && element('span', { class: 'running', role: 'img', 'aria-label': 'an answer is being made' })),
      isCurrent && element('span', { class: 'row-buttons small' },
        iconButton('edit', 'Rename', () => {
          this.#renaming = conversation;
          this.#again();
        }),
        iconButton('save', 'Export as JSON', () => exportFile(conversation)),
        iconButton('remove', 'Delete', () => this.#commands.remove(conversation))));
  }

  #renameField(conversation) {
    const field = element('input', { type: 'text', 'aria-label': 'Name of the conversation', maxlength: '120' });
    const close = (title) => {
      if (this.#renaming !== conversation)
        return; // Enter has closed it, and now it loses the focus
      this.#renaming = null;
      if (title !== null)
        this.#commands.rename(conversation, title.trim());
      this.#again();
    };
    field.value = titleOf(conversation);
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter')
        close(field.value);
      if (event.key === 'Escape') {
        event.stopPropagation();
        close(null);
      }
    });
    field.addEventListener('blur', () => close(field.value));
    queueMicrotask(() => field.select());
    return field;
  }
}
