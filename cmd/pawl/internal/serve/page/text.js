// SPDX-License-Identifier: Apache-2.0
// Much of what is shown was written by others, to whom we owe no trust. It comes into
// the page by textContent and fillText only.

// plain replaces what could hide or reorder text: control characters and those that
// format, such as overrides of the direction.
export const plain = (s) => String(s ?? '').toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, '\uFFFD');

// make returns an element.
export function make(tag, text, kind) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (kind) e.className = kind;
	return e;
}

// set changes the text of an element only if it is another one.
export function set(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

// long says how long a number of milliseconds is.
export function long(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	if (s < 60) return `${s}s`;
	if (s < 3600) return `${Math.floor(s / 60)}m${String(s % 60).padStart(2, '0')}s`;
	if (s < 86400) return `${Math.floor(s / 3600)}h${String(Math.floor(s / 60) % 60).padStart(2, '0')}m`;
	return `${Math.floor(s / 86400)}d${String(Math.floor(s / 3600) % 24).padStart(2, '0')}h`;
}

// clock says what time it was then, by this browser's clock.
export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hourCycle: 'h23' });

// who says whose something is: alice@ci-7 (pid 812, "make deploy").
export function who(p) {
	const name = p.who || [p.user, p.host].filter(Boolean).join('@') || 'somebody';
	const inner = [p.pid && `pid ${p.pid}`, p.command && `"${p.command}"`].filter(Boolean).join(', ');
	return plain(inner ? `${name} (${inner})` : name);
}

// kind says which kind of lease it is.
export const kind = (h) => h.shared ? 'shared' : h.slots ? `one of ${h.slots} slots` : 'exclusive';
