/* theme.js - sets the colours that were chosen before the first paint. A classic script, since modules run later: the page
 * would flash in the other colours. settings.js writes the choice. */
'use strict';
try {
  const theme = JSON.parse(localStorage.getItem('hearth.theme'));
  if (theme === 'light' || theme === 'dark')
    document.documentElement.dataset.theme = theme;
} catch {
  // Storage is forbidden or holds something else: the system's colours are used.
}
