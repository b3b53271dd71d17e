/* Statuses, arena, text, documents, files, hashes and the pool. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

static mf_status json(mf_doc *d, const char *text, mf_err *e)
{
	return mf_doc_parse_json(d, "f.json", text, strlen(text), e);
}
static mf_status yaml(mf_doc *d, const char *text, mf_err *e)
{
	return mf_doc_parse_yaml(d, "f.yaml", text, strlen(text), e);
}

Test(doc, json_nodes_know_their_lines)
{
	mf_doc d;
	mf_err e;
	const mf_node *n;

	cr_assert_eq(json(&d, "{\n \"a\": \"x,\\\"y\",\n \"b\": [1,\n 2],\n \"c\": {\"d\": true}\n}\n", &e), MF_OK,
		"%s", e.msg);
	cr_assert_eq(mf_node_get(d.root, "a")->line, 2);
	n = mf_node_get(d.root, "b");
	cr_assert_eq(n->n_children, 2);
	cr_assert_eq(n->first->next->line, 4);
	cr_assert_eq(mf_node_get(mf_node_get(d.root, "c"), "d")->line, 5);
	mf_doc_dispose(&d);
}

Test(doc, json_errors_name_the_line)
{
	mf_doc d;
	mf_err e;
	static const struct {
		const char *text;
		int line;
	} bad[] = {
		{"{\"a\": 1,\n\"b\": }", 2}, {"{\n\"a\": [1, 2", 2}, {"{} {}", 1}, {"{\"a\":1,\n\"a\":2}", 2}, {"", 1}};

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		cr_expect_eq(json(&d, bad[i].text, &e), MF_EINPUT, "%s", bad[i].text);
		cr_expect_eq(e.line, bad[i].line, "%s: line %d", bad[i].text, e.line);
		cr_expect_str_eq(e.file, "f.json");
	}
}

Test(doc, deep_nesting_is_refused_not_overflowed)
{
	static char text[200001];
	mf_doc d;
	mf_err e;

	memset(text, '[', 200000);
	cr_assert_eq(json(&d, text, &e), MF_EINPUT);
	cr_assert_eq(yaml(&d, text, &e), MF_EINPUT);
}

Test(doc, binary_is_refused)
{
	mf_doc d;
	mf_err e;

	cr_assert_eq(mf_doc_parse_json(&d, "b", "{\"a\"\0:1}", 8, &e), MF_EINPUT);
	cr_assert_eq(mf_doc_parse_yaml(&d, "b", "\xff\xfe\x00\x01", 4, &e), MF_EINPUT);
}

Test(doc, yaml_scalars_have_types)
{
	mf_doc d;
	mf_err e;

	cr_assert_eq(yaml(&d, "a: 1.5\nb: true\nc: text\nd: \"7\"\ne: ~\nf: [1, x]\ng: 8x\n", &e), MF_OK, "%s", e.msg);
	cr_assert_float_eq(mf_node_get(d.root, "a")->number, 1.5, 0);
	cr_assert(mf_node_get(d.root, "b")->truth);
	cr_assert_eq(mf_node_get(d.root, "c")->kind, MF_STRING);
	cr_assert_eq(mf_node_get(d.root, "d")->kind, MF_STRING);
	cr_assert_null(mf_node_get(d.root, "e"));
	cr_assert_eq(mf_node_get(d.root, "f")->first->kind, MF_NUMBER);
	cr_assert_eq(mf_node_get(d.root, "g")->kind, MF_STRING);
	mf_doc_dispose(&d);
}

Test(doc, yaml_refuses_what_surprises)
{
	static const char *const bad[] = {
		"a: &x 1\nb: *x\n", "a: !!int 3\n", "a: 1\n---\nb: 2\n", "a: 1\na: 2\n", "a: [1\n", "", "? [x]\n: 1\n"};
	mf_doc d;
	mf_err e;

	for (size_t i = 0; i < MF_COUNT(bad); i++)
		cr_expect_eq(yaml(&d, bad[i], &e), MF_EINPUT, "%s", bad[i]);
}

Test(doc, typed_readers_name_field_and_line)
{
	mf_doc d;
	mf_err e;
	uint32_t u = 7;
	double x = 1;
	static const char *const known[] = {"heads", "hidden", NULL};

	cr_assert_eq(yaml(&d, "\nheads: -3\nhidden: 1.5\nhiden: 2\nword: big\n", &e), MF_OK);
	cr_expect_eq(mf_get_u32(&d, d.root, "heads", 1, 100, &u, &e), MF_EINPUT);
	cr_expect_str_eq(e.field, "heads");
	cr_expect_eq(e.line, 2);
	cr_expect_eq(u, 7);
	cr_expect_eq(mf_get_u32(&d, d.root, "hidden", 1, 100, &u, &e), MF_EINPUT);
	cr_expect_eq(mf_get_double(&d, d.root, "word", 0, 1, &x, &e), MF_EINPUT);
	cr_expect_eq(mf_get_double(&d, d.root, "absent", 0, 1, &x, &e), MF_OK);
	cr_expect_eq(mf_need_u32(&d, d.root, "absent", 0, 1, &u, &e), MF_EINPUT);
	cr_expect_eq(mf_only_keys(&d, d.root, known, &e), MF_EINPUT);
	cr_expect_str_eq(e.field, "hiden");
	cr_expect(strstr(e.msg, "hidden"));
	mf_doc_dispose(&d);
}

Test(file, written_whole_and_read_back)
{
	char dir[] = "/tmp/moefs-test-XXXXXX", path[64];
	mf_buf b = MF_BUF_INIT;
	mf_err e;
	struct stat sb;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/f", dir);
	cr_assert_eq(mf_file_write(path, "abc", 3, 0640, &e), MF_OK);
	cr_assert_eq(stat(path, &sb), 0);
	cr_assert_eq(sb.st_mode & 0777, 0640);
	cr_assert_eq(mf_file_read(&b, path, 100, &e), MF_OK);
	cr_assert_str_eq(mf_buf_text(&b), "abc");
	cr_assert_eq(mf_file_read(&b, path, 2, &e), MF_EINPUT);
	cr_assert_eq(mf_file_read(&b, dir, 100, &e), MF_EIO);
	cr_assert_eq(mf_file_write("/nonexistent-folder/f", "x", 1, 0644, &e), MF_EIO);
	cr_assert_str_eq(e.file, "/nonexistent-folder/f");
	unlink(path);
	cr_assert_eq(rmdir(dir), 0, "a temporary file was left behind");
	mf_buf_dispose(&b);
}

Test(hash, sha256_known_answer)
{
	char hex[65];

	cr_assert_eq(mf_sha256_hex("abc", 3, hex), MF_OK);
	cr_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

Test(text, shell_quoting_survives_sh)
{
	static const char *const words[] = {"plain", "two words", "it's", "$HOME", "", "a\nb", "*?[x]"};
	mf_buf b = MF_BUF_INIT;
	char out[64];
	FILE *f;
	size_t n;

	for (size_t i = 0; i < MF_COUNT(words); i++) {
		mf_buf_clear(&b);
		mf_buf_puts(&b, "printf %s ");
		mf_buf_shell_quote(&b, words[i]);
		f = popen(mf_buf_text(&b), "r");
		cr_assert(f);
		n = fread(out, 1, sizeof out - 1, f);
		out[n] = '\0';
		pclose(f);
		cr_expect_str_eq(out, words[i]);
	}
	mf_buf_dispose(&b);
}

Test(names, nearest_is_near_or_nothing)
{
	static const char *const names[] = {"alltoall", "allgather", "deepep", NULL};

	cr_assert_str_eq(mf_nearest("alltoal", names), "alltoall");
	cr_assert_null(mf_nearest("zzzzzz", names));
}

static void square(void *payload, size_t i, unsigned worker)
{
	uint64_t *out = payload;

	(void)worker;
	out[i] += i * i;
}

Test(errors, text_has_the_parts_that_are_known)
{
	char text[MF_ERR_TEXT_MAX];
	mf_err err;

	mf_fail_at(&err, MF_EINPUT, "a.yaml", 3, "size", "too large");
	cr_expect_str_eq(mf_err_text(&err, text), "a.yaml:3: size: too large");
	mf_fail_at(&err, MF_EINPUT, "a.yaml", 0, NULL, "empty");
	cr_expect_str_eq(mf_err_text(&err, text), "a.yaml: empty");
	mf_fail_at(&err, MF_EINPUT, NULL, 7, "size", "too large");
	cr_expect_str_eq(mf_err_text(&err, text), "size: too large");
	mf_fail(&err, MF_EINPUT, "no");
	cr_expect_str_eq(mf_err_text(&err, text), "no");
}

Test(numbers, quantiles_interpolate_between_order_statistics)
{
	double v[] = {4, 1, 3, 2}, one[] = {7};

	cr_expect_float_eq(mf_quantile(v, 4, 0.5), 2.5, 1e-12);
	cr_expect_float_eq(mf_quantile(v, 4, 0.9), 3.7, 1e-12);
	cr_expect_float_eq(mf_quantile(v, 4, 0), 1, 0);
	cr_expect_float_eq(mf_quantile(v, 4, 1), 4, 0);
	cr_expect_float_eq(mf_quantile(one, 1, 0.9), 7, 0);
	cr_expect(isnan(mf_quantile(NULL, 0, 0.5)));
}

Test(pool, every_item_once_for_any_thread_count)
{
	static uint64_t out[5000];

	for (unsigned threads = 1; threads <= 5; threads++) {
		mf_pool *p;
		mf_err e;

		memset(out, 0, sizeof out);
		cr_assert_eq(mf_pool_new(&p, threads, &e), MF_OK);
		for (int job = 0; job < 3; job++)
			mf_pool_run(p, MF_COUNT(out), square, out);
		for (size_t i = 0; i < MF_COUNT(out); i++)
			cr_assert_eq(out[i], 3 * i * i);
		mf_pool_free(p);
	}
}
