/* announce.js - tells a screen reader about an answer: that it began, then whole sentences every few seconds, then how
 * it ended. The answer itself is no live region, since that would be read out again with every token. */
import { byId } from './dom.js';

const INTERVAL_MS = 4000;

export class Announcer {
  #said = 0; // characters of the answer
  #last = 0;

  say(text) {
    byId('announcement').textContent = text;
  }

  begin() {
    this.#said = 0;
    this.#last = performance.now();
    this.say('The answer begins.');
  }

  /* Called with all of the answer so far, as often as it grows. */
  progress(text) {
    if (performance.now() - this.#last < INTERVAL_MS)
      return;
    const news = text.slice(this.#said);
    const end = Math.max(...['. ', '! ', '? ', '.\n', '\n'].map((mark) => news.lastIndexOf(mark)));
    if (end <= 0)
      return;
    this.say(news.slice(0, end + 1));
    this.#said += end + 1;
    this.#last = performance.now();
  }

  end(text, words) {
    this.say(`${text.slice(this.#said)}\n${words}`);
    this.#said = text.length;
  }
}
