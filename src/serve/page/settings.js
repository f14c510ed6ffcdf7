/* settings.js - the settings dialog: what is sent with a request, the API key, the colours. Empty fields are not sent, so
 * that the server's defaults apply. */
import { byId } from './dom.js';
import { readValue, writeValue } from './store.js';

/* One row per number: its field has the id "set-NAME". */
const numbers = [
  { name: 'temperature', words: 'Temperature', min: 0, max: 5 },
  { name: 'top_p', words: 'Top p', min: 0, max: 1 },
  { name: 'max_tokens', words: 'Longest answer', min: 1, max: 1e9, whole: true },
  { name: 'seed', words: 'Seed', min: 0, max: 2 ** 32 - 1, whole: true },
];

/* The number in a text, null where it is empty; throws an Error in words. */
export function readNumber(row, text) {
  if (text.trim() === '')
    return null;
  const value = Number(text.trim().replace(',', '.'));
  if (!Number.isFinite(value) || value < row.min || value > row.max || (row.whole && !Number.isInteger(value)))
    throw new Error(`${row.words} must be a ${row.whole ? 'whole number' : 'number'} from ${row.min} to ${row.max}.`);
  return value;
}

export class Settings {
  values = { temperature: null, top_p: null, max_tokens: null, seed: null, system: '' };
  key = '';
  #changed;

  /* changed() is called after the dialog was saved. */
  constructor(changed) {
    this.#changed = changed;
    Object.assign(this.values, readValue('hearth.settings'));
    this.key = readValue('hearth.key') ?? '';
    byId('settings-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#save();
    });
    byId('settings-cancel').addEventListener('click', () => byId('settings').close());
    byId('key-show').addEventListener('change', () => {
      byId('set-key').type = byId('key-show').checked ? 'text' : 'password';
    });
  }

  /* Opens the dialog, with a field focused where one is named. */
  open(field) {
    for (const { name } of numbers)
      byId(`set-${name}`).value = this.values[name] ?? '';
    byId('set-system').value = this.values.system;
    byId('set-key').value = this.key;
    byId('key-keep').checked = readValue('hearth.key') !== null;
    byId('set-theme').value = readValue('hearth.theme') ?? 'auto';
    this.#complain(null, '');
    byId('settings').showModal();
    if (field)
      byId(field).focus();
  }

  /* Shows in empty fields what the server would take. */
  showDefaults(defaults) {
    for (const { name } of numbers)
      if (typeof defaults[name] === 'number')
        byId(`set-${name}`).placeholder = `server: ${Number(defaults[name].toPrecision(3))}`;
  }

  #complain(input, text) {
    byId('settings-error').textContent = text;
    for (const { name } of numbers)
      byId(`set-${name}`).removeAttribute('aria-invalid');
    if (input) {
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    }
  }

  #save() {
    const values = { system: byId('set-system').value.trim() };
    for (const row of numbers) {
      const input = byId(`set-${row.name}`);
      try {
        values[row.name] = readNumber(row, input.value);
      } catch (error) {
        this.#complain(input, error.message);
        return;
      }
    }
    this.values = values;
    writeValue('hearth.settings', values);
    this.key = byId('set-key').value.trim();
    writeValue('hearth.key', this.key !== '' && byId('key-keep').checked ? this.key : null);
    setTheme(byId('set-theme').value);
    byId('settings').close();
    this.#changed();
  }
}

/* auto, light or dark; theme.js reads it at the next start. */
export function setTheme(theme) {
  writeValue('hearth.theme', theme === 'auto' ? null : theme);
  if (theme === 'auto')
    delete document.documentElement.dataset.theme;
  else
    document.documentElement.dataset.theme = theme;
}
