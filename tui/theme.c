/* theme.c: themes from YAML, and colours for terminals with fewer of them. */
#include "tui_theme.h"

#include <stdlib.h>
#include <string.h>

static const char *const role_names[MF_ROLE_COUNT + 1] = {
#define X(id, name) name,
	MF_ROLES(X)
#undef X
		NULL,
};
static const char *const color_names[17] = {"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
	"bright-black", "bright-red", "bright-green", "bright-yellow", "bright-blue", "bright-magenta", "bright-cyan",
	"bright-white", NULL};
static const char *const attr_names[5] = {"bold", "dim", "underline", "reverse", NULL};

static mf_status read_color(const mf_doc *d, const mf_node *map, const char *key, uint32_t *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);
	if (!n)
		return MF_OK;
	if (n->text[0] == '#' && strlen(n->text) == 7 && strspn(n->text + 1, "0123456789abcdefABCDEF") == 6) {
		*out = MF_RGB | (uint32_t)strtoul(n->text + 1, NULL, 16);
		return MF_OK;
	}
	if (strcmp(n->text, "default") == 0) {
		*out = MF_COLOR_OWN;
		return MF_OK;
	}
	for (uint32_t i = 0; color_names[i]; i++) {
		if (strcmp(n->text, color_names[i]) == 0) {
			*out = i;
			return MF_OK;
		}
	}
	if (n->kind == MF_NUMBER && n->number >= 0 && n->number <= 255 && n->number == (uint32_t)n->number) {
		*out = (uint32_t)n->number;
		return MF_OK;
	}
	return mf_fail_at(err, MF_EINPUT, d->name, n->line, key,
		"'%.40s' is no colour: use default, a name such as bright-black, 0..255 or \"#rrggbb\"", n->text);
}

static mf_status read_attr(const mf_doc *d, const mf_node *map, uint8_t *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, "attr");
	if (!n)
		return MF_OK;
	*out = 0;
	for (const char *s = n->text; *s;) {
		size_t len = strcspn(s, " ");
		int found = -1;
		for (int i = 0; attr_names[i]; i++)
			if (strlen(attr_names[i]) == len && strncmp(attr_names[i], s, len) == 0)
				found = i;
		if (found < 0)
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, "attr",
				"'%.40s' is not among bold, dim, underline, reverse", s);
		*out |= (uint8_t)(1 << found);
		s += len;
		s += strspn(s, " ");
	}
	return MF_OK;
}

static mf_status from_doc(mf_theme *t, const mf_doc *d, mf_err *err)
{
	static const char *const style_keys[] = {"fg", "bg", "attr", NULL};
	mf_status st;

	if (!d->root || d->root->kind != MF_MAP)
		return mf_fail_at(err, MF_EINPUT, d->name, 1, NULL, "a theme is a map of roles");
	for (const mf_node *n = d->root->first; n; n = n->next) {
		int role = 0;
		while (role_names[role] && strcmp(role_names[role], n->key) != 0)
			role++;
		if (!role_names[role]) {
			const char *near = mf_nearest(n->key, role_names);
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key, "unknown role%s%s",
				near ? "; nearest is " : "", near ? near : "");
		}
		if (n->kind != MF_MAP)
			return mf_fail_at(
				err, MF_EINPUT, d->name, n->line, n->key, "a role is a map of fg, bg and attr");
		if ((st = mf_only_keys(d, n, style_keys, err)) < 0)
			return st;
		mf_style *s = &t->style[role];
		*s = (mf_style){MF_COLOR_OWN, MF_COLOR_OWN, 0};
		if ((st = read_color(d, n, "fg", &s->fg, err)) < 0 || (st = read_color(d, n, "bg", &s->bg, err)) < 0 ||
			(st = read_attr(d, n, &s->attr, err)) < 0)
			return st;
	}
	return MF_OK;
}

mf_status mf_theme_parse(mf_theme *out, const char *file, const char *text, size_t len, mf_err *err)
{
	mf_doc doc = {0};
	mf_theme t;
	mf_status st = mf_doc_parse_yaml(&doc, file, text, len, err);
	if (st < 0)
		return st;
	for (int i = 0; i < MF_ROLE_COUNT; i++)
		t.style[i] = (mf_style){MF_COLOR_OWN, MF_COLOR_OWN, 0};
	snprintf(t.name, sizeof(t.name), "%.31s", file);
	st = from_doc(&t, &doc, err);
	mf_doc_dispose(&doc);
	if (st == MF_OK)
		*out = t;
	return st;
}

mf_status mf_theme_load(mf_theme *out, const char *name, mf_err *err)
{
	mf_buf text = MF_BUF_INIT, path = MF_BUF_INIT;
	mf_status st;
	const char *builtin = NULL;

	if (strchr(name, '/') || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".yaml") == 0)) {
		mf_buf_puts(&path, name);
		if ((st = mf_file_read(&text, name, MF_DOC_MAX_BYTES, err)) < 0)
			goto done;
	} else {
		char rest[128], user[1024] = "";
		snprintf(rest, sizeof(rest), "themes/%.60s.yaml", name);
		mf_user_path(user, sizeof(user), "XDG_CONFIG_HOME", ".config", rest);
		mf_buf_puts(&path, user);
		FILE *probe = fopen(mf_buf_text(&path), "rb");
		if (probe) {
			fclose(probe);
			if ((st = mf_file_read(&text, mf_buf_text(&path), MF_DOC_MAX_BYTES, err)) < 0)
				goto done;
		} else if ((builtin = mf_theme_builtin(name))) {
			mf_buf_clear(&path);
			mf_buf_printf(&path, "built-in theme %s", name);
			mf_buf_puts(&text, builtin);
		} else {
			const char *near = mf_nearest(name, mf_theme_names);
			char list[200] = "";
			for (int i = 0; mf_theme_names[i]; i++) {
				size_t used = strlen(list);
				snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", mf_theme_names[i]);
			}
			st = mf_fail(err, MF_EINPUT, "no theme '%.60s'%s%s; there are %s, and YAML files by their path",
				name, near ? "; nearest is " : "", near ? near : "", list);
			goto done;
		}
	}
	if (text.failed || path.failed) {
		st = mf_fail(err, MF_ENOMEM, "out of memory");
		goto done;
	}
	st = mf_theme_parse(out, mf_buf_text(&path), mf_buf_text(&text), text.len, err);
	if (st == MF_OK)
		snprintf(out->name, sizeof(out->name), "%.31s", name);
done:
	mf_buf_dispose(&text);
	mf_buf_dispose(&path);
	return st;
}

/* ---- colours ---- */

static uint32_t rgb_of_index(uint32_t i)
{
	/* The first sixteen are what xterm ships with; a user's palette may differ, which no query of ours could tell. */
	static const uint32_t base[16] = {0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd,
		0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff};
	static const uint32_t level[6] = {0, 95, 135, 175, 215, 255};
	if (i < 16)
		return base[i];
	if (i < 232)
		return level[(i - 16) / 36] << 16 | level[(i - 16) / 6 % 6] << 8 | level[(i - 16) % 6];
	uint32_t grey = 8 + 10 * (i - 232);
	return grey << 16 | grey << 8 | grey;
}

uint32_t mf_color_reduce(uint32_t color, int colors)
{
	if (color == MF_COLOR_OWN || (!(color & MF_RGB) && color < (uint32_t)colors))
		return color;
	uint32_t rgb = color & MF_RGB ? color & 0xffffff : rgb_of_index(color);
	/* 256 colours: the cube and the greys alone, which every terminal agrees on. */
	uint32_t from = colors >= 256 ? 16 : 0, to = (uint32_t)colors, best = from;
	long least = -1;
	for (uint32_t i = from; i < to; i++) {
		uint32_t c = rgb_of_index(i);
		long dr = (long)(c >> 16 & 255) - (long)(rgb >> 16 & 255),
		     dg = (long)(c >> 8 & 255) - (long)(rgb >> 8 & 255), db = (long)(c & 255) - (long)(rgb & 255),
		     dist = 3 * dr * dr + 4 * dg * dg + 2 * db * db;
		if (least < 0 || dist < least)
			least = dist, best = i;
	}
	return best;
}
