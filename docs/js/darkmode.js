/* SPDX-License-Identifier: Apache-2.0 */
/* Light or dark, as the system is. It replaces the theme's own file, which fails where highlight.js is off. */
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const show = () => document.documentElement.setAttribute('data-bs-theme', dark.matches ? 'dark' : 'light');
show();
dark.addEventListener('change', show);
