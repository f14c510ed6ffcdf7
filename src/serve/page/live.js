/* live.js - the live view: which share of the neurons of each layer fired for the last token, where the layers lie, what
 * was read for it, and how fast that went beside what was predicted. Asks GET /live while the view is open and an answer
 * is being made, and once more when it ends. README.md has the document; whatever is absent is shown as not known. */
import { byId, element, svg } from './dom.js';
import { ApiError, getJson } from './api.js';
import { sizeWords } from './files.js';
import { readValue, writeValue } from './store.js';

const INTERVAL_MS = 400;
const COLUMNS = 48; // readings in the heat map, at most
const FEW = 12;     // with fewer readings their columns do not get wider
const HEATS = 10;   // colours, heat-0 to heat-9 in style.css

const UNKNOWN = 'not known';

const forms = {
  'host': { short: 'cpu', long: 'on the CPU' },
  'device': { short: 'device', long: 'on the device' },
  'split': { short: 'split', long: 'network split between CPU and device' },
  'ffn-host': { short: 'ffn on cpu', long: 'on the device, its network on the CPU' },
};

function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function shareOf(part, whole) {
  return isNumber(part) && isNumber(whole) && whole > 0 ? Math.min(part / whole, 1) : null;
}

export function percentWords(share) {
  if (share === null)
    return UNKNOWN;
  const percent = share * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

function speedWords(speed) {
  return isNumber(speed) ? `${speed >= 1000 ? Math.round(speed) : Number(speed.toPrecision(3))} tokens/s` : UNKNOWN;
}

/* A colour for a share: the root, since most layers of a sparse model lie below a quarter. */
function heatOf(share) {
  return share === null ? 'unknown' : Math.min(HEATS - 1, Math.floor(Math.sqrt(share) * HEATS));
}

/* The share of all neurons that fired, over the layers where both numbers are known; null if there are none. */
export function firedShare(layers) {
  const known = layers.filter((layer) => shareOf(layer.fired, layer.neurons) !== null);
  const sum = (name) => known.reduce((total, layer) => total + layer[name], 0);
  return known.length > 0 ? shareOf(sum('fired'), sum('neurons')) : null;
}

/* The row of a layer: made once, then updated. */
class LayerRow {
  constructor(index) {
    this.fired = svg('rect', { class: 'fired', height: '8', width: '0' });
    this.hot = svg('rect', { class: 'hot', y: '9.5', height: '2.5', width: '0' });
    this.share = element('td', { class: 'number' });
    this.form = element('td');
    this.hotWords = element('td', { class: 'number' });
    this.node = element('tr', {},
      element('th', { scope: 'row' }, String(index)),
      element('td', { class: 'strip' },
        svg('svg', { viewBox: '0 0 100 12', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
          svg('rect', { class: 'track', width: '100', height: '8' }), this.fired, this.hot)),
      this.share, this.form, this.hotWords);
  }

  show(layer) {
    const fired = shareOf(layer.fired, layer.neurons);
    const hot = shareOf(layer.hot, layer.neurons);
    const none = layer.neurons === 0;
    this.fired.setAttribute('width', (fired ?? 0) * 100);
    this.hot.setAttribute('width', (hot ?? 0) * 100);
    this.share.textContent = none ? 'no neurons' : percentWords(fired);
    this.form.textContent = forms[layer.form]?.short ?? UNKNOWN;
    this.hotWords.textContent = none ? '' : isNumber(layer.hot) ? String(layer.hot) : UNKNOWN;
    const counts = fired === null ? '' : `${layer.fired} of ${layer.neurons} neurons fired`;
    this.node.title = [counts, forms[layer.form]?.long].filter(Boolean).join('; ');
  }
}

export class LiveView {
  #rows = [];
  #columns = []; // groups of the heat map, the oldest first
  #token = null;
  #asking = null;    // the request under way
  #following = false;
  #absent = false;   // the server has no /live
  #busy = false;     // an answer is being made
  #key;
  #model;

  /* key() returns the API key, model() the name of the model that is asked, null where the server named none. */
  constructor(key, model) {
    this.#key = key;
    this.#model = model;
    for (let heat = 0; heat < HEATS; heat++)
      byId('live-scale').append(svg('rect', { class: `heat-${heat}`, x: heat, width: '1', height: '1' }));
    byId('live-close').addEventListener('click', () => this.toggle(false));
    byId('live-toggle').addEventListener('click', () => this.toggle());
    this.toggle(readValue('hearth.live') === true);
  }

  get open() {
    return !byId('live').hidden;
  }

  toggle(open = !this.open) {
    byId('live').hidden = !open;
    byId('live-toggle').setAttribute('aria-expanded', String(open));
    document.body.classList.toggle('with-live', open);
    writeValue('hearth.live', open ? true : null);
    this.#absent = false;
    this.#follow();
  }

  /* Told whenever an answer begins or the last one ends. */
  answering(busy) {
    const ended = this.#busy && !busy;
    this.#busy = busy;
    if (ended && this.open && !this.#absent)
      this.#read(); // the last token of the answer
    this.#follow();
  }

  async #follow() {
    if (this.#following)
      return;
    this.#following = true;
    while (this.open && this.#busy && !this.#absent) {
      const wait = await this.#read();
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    this.#following = false;
  }

  /* Asks once and shows what came; returns after how many milliseconds to ask again. */
  async #read() {
    this.#asking?.abort();
    this.#asking = new AbortController();
    try {
      const model = this.#model();
      const path = model ? `live?model=${encodeURIComponent(model)}` : 'live';
      this.#show(await getJson(path, this.#key(), this.#asking.signal));
    } catch (error) {
      if (error.name === 'AbortError')
        return INTERVAL_MS;
      if (!(error instanceof ApiError))
        throw error;
      this.#absent = error.status === 404;
      byId('live-note').textContent = this.#absent ? 'This server does not tell about its neurons.' : error.message;
      return Math.max(INTERVAL_MS, (error.retryAfter ?? 2) * 1000);
    }
    return INTERVAL_MS;
  }

  #show(state) {
    const layers = Array.isArray(state?.layers) ? state.layers : [];
    const fired = firedShare(layers);
    byId('live-note').textContent = layers.length > 0 ? '' : 'The server has nothing to tell about its layers.';
    byId('live-figures').hidden = false;
    byId('live-fired').textContent = percentWords(fired);
    const bytes = state?.bytes_per_token;
    byId('live-bytes').textContent = isNumber(bytes) ? sizeWords(Math.round(bytes)) : UNKNOWN;
    byId('live-token').textContent = isNumber(state?.token) ? `token ${state.token}` : '';
    this.#showSpeeds(state?.achieved_tokens_per_second, state?.predicted_tokens_per_second);
    if (layers.length !== this.#rows.length) {
      this.#rows = layers.map((_, i) => new LayerRow(i));
      byId('live-rows').replaceChildren(...this.#rows.map((row) => row.node));
      this.#columns = [];
    }
    layers.forEach((layer, i) => this.#rows[i].show(layer));
    byId('live-layers').hidden = layers.length === 0;
    if (state?.token === undefined || state.token === null || state.token !== this.#token)
      this.#addColumn(layers);
    this.#token = state?.token ?? null;
  }

  #showSpeeds(achieved, predicted) {
    const most = Math.max(isNumber(achieved) ? achieved : 0, isNumber(predicted) ? predicted : 0);
    for (const [name, speed] of [['achieved', achieved], ['predicted', predicted]]) {
      byId(`live-${name}`).textContent = speedWords(speed);
      byId(`live-${name}-bar`).setAttribute('width', isNumber(speed) && most > 0 ? (speed / most) * 100 : 0);
    }
  }

  /* A reading of a new token is a new column at the right; with many the oldest leaves at the left. */
  #addColumn(layers) {
    this.#columns.push(svg('g', {}, layers.map((layer, i) =>
      svg('rect', { class: `heat-${heatOf(shareOf(layer.fired, layer.neurons))}`, y: i, width: '1.02', height: '1.02' }))));
    if (this.#columns.length > COLUMNS)
      this.#columns.shift();
    this.#columns.forEach((column, i) => column.setAttribute('transform', `translate(${i} 0)`));
    const map = byId('live-map');
    map.setAttribute('viewBox', `0 0 ${Math.max(this.#columns.length, FEW)} ${Math.max(layers.length, 1)}`);
    map.replaceChildren(...this.#columns);
  }
}
