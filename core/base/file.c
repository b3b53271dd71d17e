/* file.c: whole files in, whole files out, and SHA-256. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

mf_status mf_file_read(mf_buf *out, const char *path, size_t max_bytes, mf_err *err)
{
	/* O_NONBLOCK: opening a fifo nobody writes to must not hang; it has no effect on regular files. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat sb;
	char chunk[65536];
	ssize_t n;

	if (fd < 0)
		return mf_fail_at(err, MF_EIO, path, 0, NULL, "cannot open: %s", strerror(errno));
	if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode)) {
		close(fd);
		return mf_fail_at(err, MF_EIO, path, 0, NULL, "not a regular file");
	}
	if ((uintmax_t)sb.st_size > max_bytes) {
		close(fd);
		return mf_fail_at(err, MF_EINPUT, path, 0, NULL, "%.1f MB is larger than the %.1f MB accepted here",
			(double)sb.st_size / 1e6, (double)max_bytes / 1e6);
	}
	while ((n = read(fd, chunk, sizeof chunk)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int e = errno;

			close(fd);
			return mf_fail_at(err, MF_EIO, path, 0, NULL, "cannot read: %s", strerror(e));
		}
		if (out->len + (size_t)n > max_bytes) {
			close(fd);
			return mf_fail_at(err, MF_EINPUT, path, 0, NULL, "grew past the %.1f MB accepted here",
				(double)max_bytes / 1e6);
		}
		mf_buf_add(out, chunk, (size_t)n);
	}
	close(fd);
	return out->failed ? mf_fail_at(err, MF_ENOMEM, path, 0, NULL, "out of memory") : MF_OK;
}

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

mf_status mf_file_write(const char *path, const void *data, size_t len, unsigned mode, mf_err *err)
{
	mf_buf tmp = MF_BUF_INIT;
	int fd, e;

	mf_buf_printf(&tmp, "%s.XXXXXX", path);
	if (tmp.failed)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	fd = mkstemp(tmp.data);
	if (fd < 0) {
		e = errno;
		mf_buf_dispose(&tmp);
		return mf_fail_at(err, MF_EIO, path, 0, NULL, "cannot write here: %s", strerror(e));
	}
	if (write_all(fd, data, len) < 0 || fchmod(fd, (mode_t)mode) < 0 || fsync(fd) < 0) {
		e = errno;
		close(fd);
		goto fail;
	}
	if (close(fd) < 0 || rename(tmp.data, path) < 0) {
		e = errno;
		goto fail;
	}
	mf_buf_dispose(&tmp);
	return MF_OK;
fail:
	unlink(tmp.data);
	mf_buf_dispose(&tmp);
	return mf_fail_at(
		err, MF_EIO, path, 0, NULL, "cannot write: %s (the old file, if any, is untouched)", strerror(e));
}

struct mf_sha256 {
	EVP_MD_CTX *ctx;
};

mf_sha256 *mf_sha256_new(void)
{
	mf_sha256 *h = calloc(1, sizeof *h);

	if (!h)
		return NULL;
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(h->ctx);
		free(h);
		return NULL;
	}
	return h;
}

void mf_sha256_add(mf_sha256 *h, const void *data, size_t len)
{
	EVP_DigestUpdate(h->ctx, data, len);
}

void mf_sha256_finish(mf_sha256 *h, char hex[65])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char md[32];
	size_t i;

	EVP_DigestFinal_ex(h->ctx, md, NULL);
	EVP_MD_CTX_free(h->ctx);
	free(h);
	for (i = 0; i < 32; i++) {
		hex[2 * i] = digits[md[i] >> 4];
		hex[2 * i + 1] = digits[md[i] & 15];
	}
	hex[64] = '\0';
}

mf_status mf_sha256_hex(const void *data, size_t len, char hex[65])
{
	mf_sha256 *h = mf_sha256_new();

	if (!h)
		return MF_ENOMEM;
	mf_sha256_add(h, data, len);
	mf_sha256_finish(h, hex);
	return MF_OK;
}

bool mf_user_path(char *out, size_t size, const char *variable, const char *fallback, const char *rest)
{
	const char *folder = getenv(variable), *home = getenv("HOME");
	int n;

	if (folder && folder[0] == '/')
		n = snprintf(out, size, "%s/moefs/%s", folder, rest);
	else if (home && home[0] == '/')
		n = snprintf(out, size, "%s/%s/moefs/%s", home, fallback, rest);
	else
		return false;
	return n > 0 && (size_t)n < size;
}

mf_status mf_make_parents(const char *path, mf_err *err)
{
	char folder[4096];
	int n = snprintf(folder, sizeof(folder), "%s", path);

	if (n < 0 || (size_t)n >= sizeof(folder))
		return mf_fail(err, MF_EINPUT, "%.60s...: the path is too long", path);
	for (char *s = folder + 1; *s; s++) {
		if (*s != '/')
			continue;
		*s = 0;
		if (mkdir(folder, 0700) < 0 && errno != EEXIST)
			return mf_fail_at(err, MF_EIO, folder, 0, NULL, "cannot make the folder: %s", strerror(errno));
		*s = '/';
	}
	return MF_OK;
}
