/* keys.c: the decoder of input bytes, and the one table of actions. */
#include "tui_cell.h"
#include "tui_keys.h"

#include <string.h>

/* ---- the table ---- */

const mf_tui_key mf_tui_keys[] = {
#define X(id, name, argument, keys, group, help) {MF_ACT_##id, name, argument, keys, group, help},
	MF_ACTIONS(X)
#undef X
		{0, NULL, NULL, NULL, NULL, NULL},
};

static const struct {
	const char *name;
	mf_key key;
} names[] = {
	{"Up", MF_KEY_UP},
	{"Down", MF_KEY_DOWN},
	{"Left", MF_KEY_LEFT},
	{"Right", MF_KEY_RIGHT},
	{"Home", MF_KEY_HOME},
	{"End", MF_KEY_END},
	{"PgUp", MF_KEY_PGUP},
	{"PgDn", MF_KEY_PGDN},
	{"Ins", MF_KEY_INSERT},
	{"Del", MF_KEY_DELETE},
	{"S-Tab", MF_KEY_BACKTAB},
	{"Tab", MF_KEY_TAB},
	{"Enter", MF_KEY_ENTER},
	{"Esc", MF_KEY_ESC},
	{"Space", ' '},
	{"BS", MF_KEY_BACKSPACE},
	{"F1", MF_KEY_F1 + 0},
	{"F2", MF_KEY_F1 + 1},
	{"F3", MF_KEY_F1 + 2},
	{"F4", MF_KEY_F1 + 3},
	{"F5", MF_KEY_F1 + 4},
	{"F6", MF_KEY_F1 + 5},
	{"F7", MF_KEY_F1 + 6},
	{"F8", MF_KEY_F1 + 7},
	{"F9", MF_KEY_F1 + 8},
	{"F10", MF_KEY_F1 + 9},
	{"F11", MF_KEY_F1 + 10},
	{"F12", MF_KEY_F1 + 11},
	{"lt", '<'},
};

mf_key mf_key_parse(const char *name, size_t len)
{
	uint32_t cp;

	for (size_t i = 0; i < MF_COUNT(names); i++)
		if (strlen(names[i].name) == len && memcmp(names[i].name, name, len) == 0)
			return names[i].key;
	if (len == 3 && name[0] == 'C' && name[1] == '-' && name[2] >= 'a' && name[2] <= 'z')
		return (mf_key)(name[2] - 'a' + 1);
	if (len > 0 && mf_utf8_decode(name, len, &cp) == len && cp != UINT32_MAX)
		return cp;
	return MF_KEY_NONE;
}

void mf_key_name(mf_key k, char out[16])
{
	for (size_t i = 0; i < MF_COUNT(names); i++) {
		if (names[i].key == k && k != '<') {
			memcpy(out, names[i].name, strlen(names[i].name) + 1);
			return;
		}
	}
	if (k >= 1 && k <= 26) {
		out[0] = 'C', out[1] = '-', out[2] = (char)('a' + k - 1), out[3] = 0;
		return;
	}
	if (k >= 0x110000 || k == 0) {
		memcpy(out, "?", 2);
		return;
	}
	out[mf_utf8_encode(k, out)] = 0;
}

static void bind(mf_keymap *m, mf_key key, mf_action action)
{
	for (int i = 0; i < m->n; i++) {
		if (m->binding[i].key == key) {
			m->binding[i].action = (uint8_t)action;
			return;
		}
	}
	if (m->n < MF_MAX_BINDINGS) {
		m->binding[m->n].key = key;
		m->binding[m->n++].action = (uint8_t)action;
	}
}

static void unbind(mf_keymap *m, mf_action action)
{
	int n = 0;
	for (int i = 0; i < m->n; i++)
		if (m->binding[i].action != action)
			m->binding[n++] = m->binding[i];
	m->n = n;
}

void mf_keymap_default(mf_keymap *m)
{
	m->n = 0;
	for (const mf_tui_key *t = mf_tui_keys; t->name; t++) {
		for (const char *s = t->keys; *s;) {
			size_t len = strcspn(s, " ");
			bind(m, mf_key_parse(s, len), (mf_action)t->action);
			s += len;
			s += strspn(s, " ");
		}
	}
}

/* What a document has given away so far. */
struct given {
	struct {
		mf_key key;
		const char *action;
		int line;
	} key[MF_MAX_BINDINGS];
	int n;
};

static mf_status bind_node(mf_keymap *m, struct given *g, const mf_doc *doc, const mf_node *n, const char *field,
	mf_action action, mf_err *err)
{
	mf_key key = n->kind == MF_LIST || n->kind == MF_MAP ? MF_KEY_NONE : mf_key_parse(n->text, strlen(n->text));

	if (key == MF_KEY_NONE)
		return mf_fail_at(err, MF_EINPUT, doc->name, n->line, field,
			"no key is named '%.40s'; expected a character, C-x, or a name such as PgDn, F1, Space",
			n->text);
	for (int i = 0; i < g->n; i++)
		if (g->key[i].key == key)
			return mf_fail_at(err, MF_EINPUT, doc->name, n->line, field,
				"%.40s is given to %s already, on line %d; an action without keys is written as %s: []",
				n->text, g->key[i].action, g->key[i].line, field);
	if (g->n < MF_MAX_BINDINGS) {
		g->key[g->n].key = key;
		g->key[g->n].action = field;
		g->key[g->n++].line = n->line;
	}
	bind(m, key, action);
	return MF_OK;
}

mf_status mf_keymap_apply(mf_keymap *m, const mf_doc *doc, mf_err *err)
{
	mf_status st = MF_OK;
	struct given g = {.n = 0};

	if (doc->root->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, doc->name, doc->root->line, NULL, "expected lines such as quit: [q, F10]");
	for (const mf_node *n = doc->root->first; n && st == MF_OK; n = n->next) {
		const char *known[MF_ACT_COUNT];
		size_t k = 0;
		mf_action action = MF_ACT_NONE;
		for (const mf_tui_key *t = mf_tui_keys; t->name; t++) {
			known[k++] = t->name;
			if (strcmp(t->name, n->key) == 0)
				action = (mf_action)t->action;
		}
		known[k] = NULL;
		if (action == MF_ACT_NONE) {
			const char *near = mf_nearest(n->key, known);
			return mf_fail_at(err, MF_EINPUT, doc->name, n->line, n->key, "no action of this name%s%s",
				near ? "; nearest is " : "", near ? near : "");
		}
		unbind(m, action);
		if (n->kind != MF_LIST)
			st = n->kind == MF_NULL ? MF_OK : bind_node(m, &g, doc, n, n->key, action, err);
		else
			for (const mf_node *c = n->first; c && st == MF_OK; c = c->next)
				st = bind_node(m, &g, doc, c, n->key, action, err);
	}
	bind(m, 3, MF_ACT_QUIT);
	return st;
}

mf_action mf_keymap_action(const mf_keymap *m, mf_key k)
{
	for (int i = 0; i < m->n; i++)
		if (m->binding[i].key == k)
			return (mf_action)m->binding[i].action;
	return MF_ACT_NONE;
}

void mf_keymap_keys(const mf_keymap *m, mf_action action, char *out, size_t size)
{
	size_t n = 0;
	out[0] = 0;
	for (int i = 0; i < m->n && n < size; i++) {
		char name[16];
		if (m->binding[i].action != action)
			continue;
		mf_key_name(m->binding[i].key, name);
		n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", name);
	}
}

void mf_keymap_first(const mf_keymap *m, mf_action action, char out[16])
{
	out[0] = 0;
	for (int i = 0; i < m->n && !out[0]; i++)
		if (m->binding[i].action == action)
			mf_key_name(m->binding[i].key, out);
}

mf_action mf_action_of_name(const char *name, size_t len)
{
	mf_action found = MF_ACT_NONE;
	int n = 0;
	for (const mf_tui_key *t = mf_tui_keys; t->name; t++) {
		if (len == 0 || strncmp(t->name, name, len) != 0)
			continue;
		if (strlen(t->name) == len)
			return (mf_action)t->action;
		found = (mf_action)t->action;
		n++;
	}
	return n == 1 ? found : MF_ACT_NONE;
}

/* ---- the decoder ---- */

size_t mf_key_feed(mf_key_decoder *d, const void *bytes, size_t len, double now_ms)
{
	size_t room = sizeof(d->bytes) - d->len;
	if (len > room)
		len = room;
	memcpy(d->bytes + d->len, bytes, len);
	d->len += len;
	/* New bytes restart the wait: a sequence that is still arriving is not a lone Esc. */
	if (len > 0)
		d->esc_since_ms = now_ms;
	return len;
}

static bool take(mf_key_decoder *d, size_t n, mf_key_event *out, mf_key key)
{
	memmove(d->bytes, d->bytes + n, d->len - n);
	d->len -= n;
	d->waiting = false;
	out->key = key;
	return key != MF_KEY_NONE;
}

/* Key of a final byte of CSI or SS3. */
static mf_key letter_key(unsigned char c)
{
	switch (c) {
	case 'A': return MF_KEY_UP;
	case 'B': return MF_KEY_DOWN;
	case 'C': return MF_KEY_RIGHT;
	case 'D': return MF_KEY_LEFT;
	case 'H': return MF_KEY_HOME;
	case 'F': return MF_KEY_END;
	case 'Z': return MF_KEY_BACKTAB;
	case 'P':
	case 'Q':
	case 'R':
	case 'S': return MF_KEY_F1 + (mf_key)(c - 'P');
	case 'M': return MF_KEY_ENTER; /* the keypad's Enter, after SS3 */
	default: return MF_KEY_NONE;
	}
}

static mf_key number_key(int n)
{
	switch (n) {
	case 1:
	case 7: return MF_KEY_HOME;
	case 2: return MF_KEY_INSERT;
	case 3: return MF_KEY_DELETE;
	case 4:
	case 8: return MF_KEY_END;
	case 5: return MF_KEY_PGUP;
	case 6: return MF_KEY_PGDN;
	default: return n >= 11 && n <= 15 ? MF_KEY_F1 + (mf_key)(n - 11) : MF_KEY_NONE;
	}
}

/* Decodes "ESC [ ..." at the front. 1: a key; 0: more bytes needed; -1: a whole sequence that means nothing to us. */
static int csi(mf_key_decoder *d, mf_key_event *out)
{
	int params[4] = {0}, n = 0;
	size_t i = 2;
	bool mouse = i < d->len && d->bytes[i] == '<';

	if (mouse)
		i++;
	/* The Linux console's F1..F5: ESC [ [ A. */
	if (i < d->len && d->bytes[i] == '[') {
		if (d->len < 4)
			return 0;
		mf_key k = d->bytes[3] >= 'A' && d->bytes[3] <= 'E' ? MF_KEY_F1 + (mf_key)(d->bytes[3] - 'A')
								    : MF_KEY_NONE;
		return take(d, 4, out, k) ? 1 : -1;
	}
	for (; i < d->len && d->bytes[i] < 0x40; i++) {
		unsigned char c = d->bytes[i];
		if (c < 0x20) {
			/* Not a sequence after all: drop what came before and read on from here. */
			return take(d, i, out, MF_KEY_NONE) ? 1 : -1;
		}
		if (c >= '0' && c <= '9' && n < 4 && params[n] < 100000)
			params[n] = params[n] * 10 + (c - '0');
		else if (c == ';' && n < 3)
			n++;
	}
	if (i >= d->len)
		return d->len == sizeof(d->bytes) ? (take(d, d->len, out, MF_KEY_NONE), -1) : 0;
	unsigned char final = d->bytes[i];
	if (mouse) {
		out->button = params[0] & ~(4 | 8 | 16);
		out->x = params[1] - 1;
		out->y = params[2] - 1;
		/* Presses only: a release, and motion, are not acts. */
		return take(d, i + 1, out, final == 'M' && !(params[0] & 32) ? MF_KEY_MOUSE : MF_KEY_NONE) ? 1 : -1;
	}
	if (final == 'n' && d->bytes[2] != '?')
		return take(d, i + 1, out, MF_KEY_REPLY) ? 1 : -1;
	mf_key k = final == '~' ? number_key(params[0]) : final == 'M' ? MF_KEY_NONE : letter_key(final);
	return take(d, i + 1, out, k) ? 1 : -1;
}

bool mf_key_next(mf_key_decoder *d, double now_ms, mf_key_event *out)
{
	*out = (mf_key_event){MF_KEY_NONE, 0, 0, 0};
	while (d->len > 0) {
		bool late = now_ms - d->esc_since_ms >= MF_ESC_MS;
		unsigned char c = d->bytes[0];
		if (c == 27) {
			int r = 0;
			if (d->terminfo) {
				for (int i = 0; i <= (int)(MF_KEY_F1 - MF_KEY_UP); i++) {
					const char *s = d->terminfo(d->payload, i);
					size_t len = s ? strlen(s) : 0;
					if (len > 1 && len <= d->len && memcmp(d->bytes, s, len) == 0)
						return take(d, len, out, MF_KEY_UP + (mf_key)i);
				}
			}
			if (d->len >= 2) {
				if (d->bytes[1] == '[') {
					r = csi(d, out);
				} else if (d->bytes[1] == 'O') {
					if (d->len >= 3)
						r = take(d, 3, out, letter_key(d->bytes[2])) ? 1 : -1;
				} else {
					/* Nothing is bound to Alt, so an Esc that a key follows at once (a fast hand, a slow line) is
					 * Esc and that key. */
					return take(d, 1, out, MF_KEY_ESC);
				}
			}
			if (r > 0)
				return true;
			if (r < 0)
				continue;
			if (!late) {
				d->waiting = true;
				return false;
			}
			/* The rest never came: Esc alone, or the torn head of a sequence, which means nothing. */
			size_t n = d->len;
			return take(d, n, out, MF_KEY_ESC);
		}
		if (c >= 0x80) {
			uint32_t cp;
			size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
			if (d->len < need && !late) {
				d->waiting = true;
				return false;
			}
			size_t n = mf_utf8_decode((const char *)d->bytes, d->len, &cp);
			if (take(d, n, out, cp == UINT32_MAX ? MF_KEY_NONE : cp))
				return true;
			continue;
		}
		if (take(d, 1, out, c == '\n' ? MF_KEY_ENTER : c == 8 ? MF_KEY_BACKSPACE : c))
			return true;
	}
	return false;
}

double mf_key_deadline(const mf_key_decoder *d, double now_ms)
{
	if (d->len == 0 || !d->waiting)
		return -1;
	double left = d->esc_since_ms + MF_ESC_MS - now_ms;
	return left > 0 ? left : 0;
}
