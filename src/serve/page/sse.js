/* sse.js - Server-Sent Events, as the HTML standard defines them: bytes in, events out. Bytes may be cut anywhere, also
 * inside a character or between CR and LF. Knows nothing of what the events carry. */

export class EventParser {
  #decoder = new TextDecoder();
  #line = '';
  #afterReturn = false; // a CR ended the last line, so that a LF that follows belongs to it
  #data = [];
  #type = '';

  /* Takes the next bytes; returns the events that they complete: [{type, data}]. */
  feed(bytes) {
    const events = [];
    let text = this.#decoder.decode(bytes, { stream: true });
    if (this.#afterReturn && text !== '') {
      this.#afterReturn = false;
      if (text[0] === '\n')
        text = text.slice(1);
    }
    let begin = 0;
    for (let at = 0; at < text.length; at++) {
      const c = text[at];
      if (c !== '\n' && c !== '\r')
        continue;
      this.#endLine(this.#line + text.slice(begin, at), events);
      this.#line = '';
      if (c === '\r') {
        if (at + 1 === text.length)
          this.#afterReturn = true;
        else if (text[at + 1] === '\n')
          at++;
      }
      begin = at + 1;
    }
    this.#line += text.slice(begin);
    return events;
  }

  #endLine(line, events) {
    if (line === '') { // an empty line ends an event; one without data is none
      if (this.#data.length > 0)
        events.push({ type: this.#type || 'message', data: this.#data.join('\n') });
      this.#data = [];
      this.#type = '';
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) // a comment: servers send them to keep a connection open
      return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value[0] === ' ')
      value = value.slice(1);
    if (field === 'data')
      this.#data.push(value);
    else if (field === 'event')
      this.#type = value;
  }
}
