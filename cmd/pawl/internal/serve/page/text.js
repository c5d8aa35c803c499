// SPDX-License-Identifier: Apache-2.0
// Other users wrote much of the text on the page, and it is not trusted. The page inserts it only with
// textContent and fillText.

// plain replaces characters that could hide or reorder text: control characters, and
// formatting characters such as direction overrides.
export const plain = (s) => String(s ?? '').toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, '\uFFFD');

// make returns an element.
export function make(tag, text, kind) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (kind) e.className = kind;
	return e;
}

// set changes the text of an element if the text differs.
export function set(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

// long returns a number of milliseconds as a duration for people.
export function long(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	if (s < 60) return `${s}s`;
	if (s < 3600) return `${Math.floor(s / 60)}m${String(s % 60).padStart(2, '0')}s`;
	if (s < 86400) return `${Math.floor(s / 3600)}h${String(Math.floor(s / 60) % 60).padStart(2, '0')}m`;
	return `${Math.floor(s / 86400)}d${String(Math.floor(s / 3600) % 24).padStart(2, '0')}h`;
}

// clock returns an instant as a time of day, in the browser's time zone.
export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hourCycle: 'h23' });

// who returns a holder or waiter as text, such as: alice@ci-7 (pid 812, "make deploy").
export function who(p) {
	const name = p.who || [p.user, p.host].filter(Boolean).join('@') || 'somebody';
	const inner = [p.pid && `pid ${p.pid}`, p.command && `"${p.command}"`].filter(Boolean).join(', ');
	return plain(inner ? `${name} (${inner})` : name);
}

// kind returns the kind of a lease as text.
export const kind = (h) => h.shared ? 'shared' : h.slots ? `one of ${h.slots} slots` : 'exclusive';
