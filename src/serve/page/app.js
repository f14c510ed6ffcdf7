/* app.js - the page begins here: makes the parts, and carries what the reader does from one to another. Read tree.js
 * (what a conversation is), answers.js (how an answer is made) and transcript.js (how it is shown) next. */
import { Announcer } from './announce.js';
import { Answers, isOpen } from './answers.js';
import { Composer } from './composer.js';
import { ConversationList } from './conversations.js';
import { byId, element, icon } from './dom.js';
import { LiveView } from './live.js';
import { Server } from './server.js';
import { setTheme, Settings } from './settings.js';
import { openStore } from './store.js';
import { Transcript, statWords } from './transcript.js';
import { append, choose, newConversation, removeMessage, ROOT, chosenPath } from './tree.js';

const SAVE_EVERY_MS = 1000; // while an answer grows

const store = await openStore();
let conversations = await store.all();
let current = newConversation(); // in the list only after its first message
const saved = new Map();         // conversation id: when it was last written
const announcer = new Announcer();

function isListed(conversation) {
  return conversations.includes(conversation);
}

async function save(conversation) {
  if (!isListed(conversation))
    return; // deleted while its answer was made
  saved.set(conversation.id, performance.now());
  try {
    await store.put(conversation);
  } catch {
    toast('The browser could not store this conversation. Export it before you close the page.');
  }
}

function show() {
  list.show(conversations, current, (conversation) => answers.runs(conversation));
  transcript.show(current, answers.runs(current));
  composer.busy = answers.runs(current);
  live.answering(answers.count > 0);
}

/* A short message that goes away, with a button where something can be done about it. */
let toastTimer = null;
function toast(text, button, click) {
  const area = byId('toast');
  const close = () => {
    area.hidden = true;
  };
  const act = () => {
    close();
    click();
  };
  area.replaceChildren(element('span', {}, text),
    button ? element('button', { type: 'button', class: 'plain', click: act }, button) : '');
  area.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(close, 8000);
}

/* --- answers --- */

const answers = new Answers((conversation, message) => {
  if (performance.now() - (saved.get(conversation.id) ?? 0) > SAVE_EVERY_MS)
    save(conversation);
  if (conversation !== current)
    return;
  transcript.changed();
  announcer.progress(message.content);
}, (conversation, message) => {
  conversation.changed = Date.now();
  save(conversation);
  show();
  if (conversation === current)
    announcer.end(message.content, message.notice || `The answer is complete. ${statWords(message)}`);
});

function answer(conversation, parent) {
  const message = append(conversation, parent,
    { role: 'assistant', content: '', reasoning: '', state: 'waiting', notice: '', detail: '' });
  announcer.begin();
  answers.make(conversation, message, async () => {
    await server.asked;
    return { settings: settings.values, model: server.model, key: settings.key, completes: server.completes };
  });
  show();
  transcript.toEnd();
}

function say(conversation, parent, message) {
  const said = append(conversation, parent, { role: 'user', ...message });
  if (!isListed(conversation))
    conversations.unshift(conversation);
  location.hash = conversation.id;
  save(conversation);
  answer(conversation, said.id);
}

const commands = {
  send(message) {
    say(current, chosenPath(current).at(-1)?.id ?? ROOT, message);
  },
  stop() {
    answers.stop(current);
  },
  retry(message) {
    const { parent } = message;
    if (message.content === '' && message.children.length === 0)
      removeMessage(current, message.id); // it failed: nothing worth walking back to
    answer(current, parent);
    composer.focus(); // the button that was pressed is gone
  },
  edit(message, content) {
    composer.focus();
    say(current, message.parent, { content: content.trim(), files: message.files ?? [] });
  },
  choose(id) {
    choose(current, id);
    save(current);
    show();
    byId(`message-${id}`).querySelector('.branches button:not([disabled])')?.focus();
  },
  askKey() {
    settings.open('set-key');
  },
  editLast() {
    transcript.editLast();
  },
  say: toast,
};

/* --- conversations --- */

function open(conversation) {
  current = conversation;
  location.hash = isListed(conversation) ? conversation.id : '';
  closeDrawer();
  show();
}

function openNew() {
  open(newConversation());
  composer.focus();
}

function remove(conversation) {
  answers.stop(conversation);
  conversations = conversations.filter((other) => other !== conversation);
  store.remove(conversation.id);
  if (conversation === current)
    open(newConversation());
  else
    show();
  toast('Conversation deleted.', 'Undo', () => {
    conversations = [conversation, ...conversations].sort((a, b) => b.changed - a.changed);
    save(conversation);
    open(conversation);
  });
}

function rename(conversation, title) {
  conversation.title = title;
  save(conversation);
  show();
}

/* The conversation that the address names, so that reloading and the browser's way back lead to it. */
function openNamed() {
  const named = conversations.find((conversation) => conversation.id === location.hash.slice(1));
  if (named && named !== current)
    open(named);
  else if (!named && isListed(current))
    open(newConversation());
}

/* An answer that is open in what was stored was being made by a page that was closed. */
function closeOpenAnswers() {
  for (const conversation of conversations)
    for (const message of Object.values(conversation.messages))
      if (isOpen(message) && !answers.runs(conversation))
        Object.assign(message,
          { state: 'failed', notice: 'The page was closed before the answer was complete.', detail: '' });
}

/* Another tab may have changed what is stored: what is newer there replaces what is here. */
async function readAgain() {
  if (!store.persistent || document.hidden || answers.count > 0)
    return;
  const here = new Map(conversations.map((conversation) => [conversation.id, conversation]));
  conversations = (await store.all()).map((conversation) => {
    const own = here.get(conversation.id);
    return own && own.changed >= conversation.changed ? own : conversation;
  });
  const same = conversations.find((conversation) => conversation.id === current.id);
  if (same && same !== current)
    current = same;
  show();
}

/* --- drawer, keys, start --- */

function isNarrow() {
  return matchMedia('(max-width: 55rem)').matches;
}

function setDrawer(isOpen) {
  document.body.classList.toggle('with-list', isOpen);
  byId('list-toggle').setAttribute('aria-expanded', String(isOpen));
  byId('conversations').hidden = !isOpen;
  const covers = isOpen && isNarrow();
  byId('shade').hidden = !covers;
  byId('main').inert = byId('live').inert = covers;
  if (covers)
    byId('new-conversation').focus();
}

function closeDrawer() {
  if (isNarrow())
    setDrawer(false);
}

const shortcuts = {
  'Alt+KeyN': openNew,
  'Alt+KeyL': () => live.toggle(),
  'Alt+KeyC': () => setDrawer(byId('conversations').hidden),
  'Alt+Comma': () => settings.open(),
  'Slash': () => byId('message').focus(),
  'Shift+Slash': () => byId('shortcuts').showModal(),
  'Escape': () => commands.stop(),
};

function key(event) {
  if (event.isComposing || event.defaultPrevented || document.querySelector('dialog[open]'))
    return;
  const writing = event.target.matches('input, textarea, select');
  if (writing && !event.altKey && event.key !== 'Escape')
    return;
  if (event.ctrlKey || event.metaKey)
    return;
  const code = event.key === '?' ? 'Shift+Slash' : event.key === '/' ? 'Slash' : event.code;
  const command = shortcuts[`${event.altKey ? 'Alt+' : ''}${code}`];
  if (event.key === 'Escape' && !byId('shade').hidden) {
    closeDrawer();
    byId('list-toggle').focus();
  } else if (command) {
    event.preventDefault();
    command();
  }
}

const settings = new Settings(() => server.ask());
const server = new Server(settings, commands.askKey);
const live = new LiveView(() => settings.key, () => server.model);
const list = new ConversationList({ open, rename, remove });
const transcript = new Transcript(commands);
const composer = new Composer(commands);

for (const button of document.querySelectorAll('[data-icon]'))
  button.prepend(icon(button.dataset.icon));
byId('new-conversation').addEventListener('click', openNew);
byId('settings-open').addEventListener('click', () => settings.open());
byId('shortcuts-open').addEventListener('click', () => byId('shortcuts').showModal());
byId('shortcuts-close').addEventListener('click', () => byId('shortcuts').close());
byId('theme-toggle').addEventListener('click', () => {
  const { theme } = document.documentElement.dataset;
  const dark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(dark ? 'light' : 'dark');
});
byId('list-toggle').addEventListener('click', () => setDrawer(byId('conversations').hidden));
byId('shade').addEventListener('click', closeDrawer);
addEventListener('keydown', key);
addEventListener('hashchange', openNamed);
document.addEventListener('visibilitychange', readAgain);

closeOpenAnswers();
setDrawer(!isNarrow());
openNamed();
show();
if (!store.persistent)
  toast('This browser stores nothing for this page: conversations last until it is closed.');
composer.focus();
server.ask();
