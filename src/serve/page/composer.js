/* composer.js - the field where a message is written, with the files that go with it, and the button that sends or
 * stops. */
import { byId, element, icon, iconButton } from './dom.js';
import { readTextFile, sizeWords } from './files.js';

const DRAFT = 'hearth.draft'; // in sessionStorage: each tab has its own

/* On a touch screen Enter is the only way to a new line, so it does not send. */
function isTouch() {
  return matchMedia('(pointer: coarse)').matches;
}

export class Composer {
  #files = [];
  #commands;
  #busy = false;

  /* commands: send({content, files}), stop(), editLast(), say(text) */
  constructor(commands) {
    this.#commands = commands;
    const field = byId('message');
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#sendOrStop();
    });
    field.addEventListener('keydown', (event) => this.#key(event));
    field.addEventListener('input', () => this.#changed());
    field.addEventListener('paste', (event) => {
      if (event.clipboardData.files.length > 0) {
        event.preventDefault();
        this.add(event.clipboardData.files);
      }
    });
    byId('attach').addEventListener('click', () => byId('file-input').click());
    byId('file-input').addEventListener('change', (event) => {
      this.add(event.target.files);
      event.target.value = '';
    });
    this.#acceptDrops();
    try {
      field.value = sessionStorage.getItem(DRAFT) ?? '';
    } catch {
      // Storage is forbidden: no draft.
    }
    this.#changed();
  }

  /* Not on a touch screen, where the keyboard would come up and cover the answer. */
  focus() {
    if (!isTouch())
      byId('message').focus();
  }

  /* While an answer is made the button stops it. */
  set busy(busy) {
    if (busy === this.#busy)
      return;
    this.#busy = busy;
    const button = byId('send');
    button.replaceChildren(icon(busy ? 'stop' : 'send'));
    button.setAttribute('aria-label', busy ? 'Stop the answer' : 'Send');
    button.title = busy ? 'Stop the answer (Escape)' : 'Send (Enter)';
    button.classList.toggle('stop', busy);
    this.#changed();
  }

  async add(files) {
    for (const file of files) {
      try {
        this.#files.push(await readTextFile(file));
      } catch (error) {
        this.#commands.say(error.message);
      }
    }
    this.#showFiles();
    this.focus();
  }

  #acceptDrops() {
    const holdsFiles = (event) => event.dataTransfer?.types.includes('Files');
    const over = (event) => {
      if (holdsFiles(event)) {
        event.preventDefault();
        document.body.classList.add('dropping');
      }
    };
    addEventListener('dragenter', over);
    addEventListener('dragover', over);
    addEventListener('dragleave', (event) => {
      if (event.relatedTarget === null)
        document.body.classList.remove('dropping');
    });
    addEventListener('drop', (event) => {
      document.body.classList.remove('dropping');
      if (holdsFiles(event)) {
        event.preventDefault();
        this.add(event.dataTransfer.files);
      }
    });
  }

  #key(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !isTouch()) {
      event.preventDefault();
      if (!this.#busy)
        this.#sendOrStop();
    } else if (event.key === 'ArrowUp' && byId('message').value === '' && !this.#busy) {
      event.preventDefault();
      this.#commands.editLast();
    }
  }

  #sendOrStop() {
    const field = byId('message');
    if (this.#busy) {
      this.#commands.stop();
      return;
    }
    if (field.value.trim() === '' && this.#files.length === 0)
      return;
    const message = { content: field.value.trim(), files: this.#files };
    field.value = '';
    this.#files = [];
    this.#showFiles();
    this.#changed();
    this.#commands.send(message);
  }

  #changed() {
    const field = byId('message');
    byId('send').disabled = !this.#busy && field.value.trim() === '' && this.#files.length === 0;
    field.style.height = 'auto'; // where the browser lacks field-sizing
    field.style.height = `${field.scrollHeight + 2}px`;
    try {
      sessionStorage.setItem(DRAFT, field.value);
    } catch {
      // Storage is forbidden or full: no draft.
    }
  }

  #showFiles() {
    byId('files').replaceChildren(...this.#files.map((file) =>
      element('li', {}, `${file.name} (${sizeWords(new Blob([file.text]).size)})`,
        iconButton('close', `Leave out ${file.name}`, () => {
          this.#files = this.#files.filter((other) => other !== file);
          this.#showFiles();
          this.focus();
        }))));
    byId('files').hidden = this.#files.length === 0;
    this.#changed();
  }
}
