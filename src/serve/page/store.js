/* store.js - keeps conversations in the browser (IndexedDB, a record each), and small settings (localStorage). Where a
 * browser forbids storage, both live until the page is closed, and the page says so. Nothing is sent anywhere. */

/* One database request as a promise. */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

class DatabaseStore {
  persistent = true;
  #database;

  constructor(database) {
    this.#database = database;
  }

  #records(access) {
    return this.#database.transaction('conversations', access).objectStore('conversations');
  }

  /* All conversations, the last changed first. */
  async all() {
    const found = await done(this.#records('readonly').getAll());
    return found.sort((a, b) => b.changed - a.changed);
  }

  put(conversation) {
    return done(this.#records('readwrite').put(conversation));
  }

  remove(id) {
    return done(this.#records('readwrite').delete(id));
  }
}

class MemoryStore {
  persistent = false;
  #records = new Map();

  async all() {
    return [...this.#records.values()].sort((a, b) => b.changed - a.changed);
  }

  async put(conversation) {
    this.#records.set(conversation.id, conversation);
  }

  async remove(id) {
    this.#records.delete(id);
  }
}

export async function openStore() {
  try {
    const request = indexedDB.open('hearth', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('conversations', { keyPath: 'id' });
    return new DatabaseStore(await done(request));
  } catch {
    return new MemoryStore();
  }
}

/* Small values by name, JSON inside. Reading what is absent or broken gives null. */
export function readValue(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}

export function writeValue(name, value) {
  try {
    if (value === null)
      localStorage.removeItem(name);
    else
      localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Storage is forbidden or full: the value lasts until the page is closed.
  }
}
