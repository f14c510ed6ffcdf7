/* tree.js - a conversation as a tree of messages. Retrying an answer or editing a message adds a sibling; each message
 * remembers which of its children is chosen, and the chosen ones make the conversation that is shown. Plain objects, so
 * that they can be stored and exported as they are.
 *
 *   conversation {id, title, created, changed, messages: {id: message}}
 *   message      {id, parent, children: [id], chosen: id or null, role, content, ...}
 *
 * The message "root" has neither role nor content. answers.js adds reasoning, state, usage; composer.js adds files. */

export const ROOT = 'root';

/* Not crypto.randomUUID, which browsers have only on loopback and over TLS. */
function newId() {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newConversation() {
  const now = Date.now();
  return {
    id: newId(), title: '', created: now, changed: now,
    messages: { [ROOT]: { id: ROOT, parent: null, children: [], chosen: null } },
  };
}

/* Adds a message as the last child of parent and chooses it. */
export function append(conversation, parent, message) {
  const added = { id: newId(), parent, children: [], chosen: null, created: Date.now(), ...message };
  conversation.messages[added.id] = added;
  conversation.messages[parent].children.push(added.id);
  choose(conversation, added.id);
  return added;
}

export function choose(conversation, id) {
  const message = conversation.messages[id];
  conversation.messages[message.parent].chosen = id;
  conversation.changed = Date.now();
}

/* The chosen messages from the first to the last. */
export function chosenPath(conversation) {
  const path = [];
  for (let at = conversation.messages[ROOT]; at.chosen !== null;) {
    at = conversation.messages[at.chosen];
    path.push(at);
  }
  return path;
}

/* The messages from the first to the one with this id. */
export function pathTo(conversation, id) {
  const path = [];
  for (let at = conversation.messages[id]; at.id !== ROOT; at = conversation.messages[at.parent])
    path.unshift(at);
  return path;
}

export function siblings(conversation, id) {
  return conversation.messages[conversation.messages[id].parent].children;
}

/* Removes a message and all below it; the sibling before it (else the next) is chosen. */
export function removeMessage(conversation, id) {
  const parent = conversation.messages[conversation.messages[id].parent];
  const at = parent.children.indexOf(id);
  parent.children.splice(at, 1);
  if (parent.chosen === id)
    parent.chosen = parent.children[Math.max(at - 1, 0)] ?? null;
  const doomed = [id];
  while (doomed.length > 0) {
    const message = conversation.messages[doomed.pop()];
    doomed.push(...message.children);
    delete conversation.messages[message.id];
  }
}

/* A title for a conversation that nobody named: the first words of its first message. */
export function titleOf(conversation) {
  if (conversation.title)
    return conversation.title;
  const first = conversation.messages[conversation.messages[ROOT].children[0]];
  if (!first)
    return 'New conversation';
  const line = (first.content.trim() || first.files?.[0]?.name || 'Untitled').split('\n')[0];
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}
