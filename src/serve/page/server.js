/* server.js - what the page knows of the server: its models and their facts, from /v1/models and /props. Says in a banner
 * why nothing is known, and asks again when a busy server said it would be ready. */
import { byId, element } from './dom.js';
import { ApiError, getJson } from './api.js';
import { readValue, writeValue } from './store.js';

/* Rows of the welcome page: what /props says, in words. Rows without a value are left out. */
const factRows = [
  { words: 'Context', name: 'n_ctx', unit: 'tokens' },
  { words: 'Mode', name: 'mode' },
  { words: 'Guarantee', name: 'guarantee' },
  { words: 'Version', name: 'build' },
];

export class Server {
  model = null;      // the one that is asked, null where the server named none
  completes = false; // it has no chat template: it continues texts
  asked = null;      // resolves when the server was asked and has answered or not
  #settings;
  #askKey;
  #timer = null;

  /* askKey() opens the settings at the key. */
  constructor(settings, askKey) {
    this.#settings = settings;
    this.#askKey = askKey;
    byId('model-choice').addEventListener('change', (event) => {
      this.model = event.target.value;
      writeValue('hearth.model', this.model);
      this.asked = this.#showFacts(); // they may differ between models
    });
  }

  /* Asks for everything; shows what came or why nothing did. */
  ask() {
    clearTimeout(this.#timer);
    this.asked = this.#ask();
  }

  async #ask() {
    try {
      const { data } = await getJson('v1/models', this.#settings.key);
      this.#showModels((Array.isArray(data) ? data : []).map((entry) => String(entry.id)));
    } catch (error) {
      if (!(error instanceof ApiError))
        throw error;
      if (error.status !== 404) { // without a list of models the server answers with the one it has
        this.#explain(error);
        return;
      }
      this.#showModels([]);
    }
    byId('banner').hidden = true;
    await this.#showFacts();
  }

  #showModels(names) {
    const wished = readValue('hearth.model');
    this.model = names.includes(wished) ? wished : names[0] ?? null;
    const choice = byId('model-choice');
    choice.replaceChildren(...names.map((name) => element('option', { value: name }, name)));
    choice.value = this.model ?? '';
    choice.hidden = names.length < 2;
    byId('model-name').hidden = names.length !== 1;
    byId('model-name').textContent = names.length === 1 ? names[0] : '';
  }

  /* A server without /props (404) is no error: the facts are not shown, and the model is taken for one that chats. */
  async #showFacts() {
    let props = {};
    try {
      props = await getJson(this.model ? `props?model=${encodeURIComponent(this.model)}` : 'props', this.#settings.key);
    } catch (error) {
      if (!(error instanceof ApiError))
        throw error;
    }
    this.completes = props?.chat_template === null;
    byId('welcome-words').textContent = this.completes ? 'This model has no chat template: it continues what you write.'
      : 'What you write is answered by the model on this server.';
    byId('message').placeholder = this.completes ? 'Begin a text' : 'Write a message';
    this.#settings.showDefaults(props?.default_generation_settings ?? {});
    const rows = factRows.filter(({ name }) => ['string', 'number'].includes(typeof props?.[name]));
    byId('facts').replaceChildren(...rows.flatMap(({ words, name, unit }) =>
      [element('dt', {}, words), element('dd', {}, [props[name], unit].filter(Boolean).join(' '))]));
  }

  #explain(error) {
    if (error.status === 401) {
      this.#banner(error.message, 'Enter a key', this.#askKey);
    } else if (error.busy) {
      this.#countDown(error, error.retryAfter ?? 5);
    } else {
      this.#banner([error.message, error.detail].filter(Boolean).join(' '), 'Try again', () => this.ask());
    }
  }

  /* The seconds are hidden from screen readers, which would say the banner again with each. */
  #countDown(error, seconds) {
    const shown = element('span', { 'aria-hidden': 'true' });
    const tick = (left) => {
      shown.textContent = ` in ${left} ${left === 1 ? 'second' : 'seconds'}`;
      this.#timer = setTimeout(() => (left > 1 ? tick(left - 1) : this.ask()), 1000);
    };
    tick(seconds);
    this.#banner([error.detail || error.message, ' Trying again', shown, '.'], 'Try now', () => this.ask());
  }

  /* Shows strings and nodes, with a button where there is something to do. */
  #banner(text, button, click) {
    const banner = byId('banner');
    banner.hidden = false;
    banner.replaceChildren(element('p', {}, text),
      button ? element('button', { type: 'button', class: 'plain', click }, button) : '');
  }
}
