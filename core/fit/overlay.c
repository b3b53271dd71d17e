/* overlay.c: a fit as an overlay file. */
#include "fit.h"

#include <math.h>
#include <string.h>

/* A number as short as its accuracy allows. */
static void put(mf_buf *out, double v)
{
	mf_buf_printf(out, "%.4g", v);
}

void mf_fit_overlay(const mf_fit *f, const char *origin, mf_buf *out)
{
	mf_buf_printf(out,
		"# Curves of %s, fitted by `moefs calibrate --from %s`.\n"
		"# One shape in five, chosen by a hash of the shape, was kept out of the fit; median and p90 are of\n"
		"# |ln(predicted/measured)| on those. Rates are shares of the datasheet's.\n"
		"domain:\n  gpu: %s\n  source: \"%s\"\n"
		"curves:\n",
		f->device, origin, f->gpu.gpu, origin);
	for (size_t i = 0; i < f->n_curves; i++) {
		const mf_fit_curve *c = &f->curves[i];
		const mf_curve_info *info = &mf_curve_infos[c->id];
		bool first = true;

		mf_buf_printf(out, "  %s:\n", info->name);
		if (c->supported) {
			mf_buf_puts(out, "    values:\n");
			for (int p = 0; p < info->n; p++) {
				mf_buf_printf(out, "      %s: ", mf_const_infos[info->first + (mf_const_id)p].name);
				put(out, c->value[p]);
				mf_buf_putc(out, '\n');
			}
		} else {
			mf_buf_printf(out, "    unsupported: \"%s\"\n", c->reason);
		}
		mf_buf_puts(out, "    domain: {");
		for (int d = 0; d < MF_CURVE_DIMS && info->dim[d]; d++) {
			mf_buf_printf(out, "%s%s: [", first ? "" : ", ", info->dim[d]);
			mf_buf_printf(out, "%.10g, %.10g]", c->lo[d], c->hi[d]);
			first = false;
		}
		mf_buf_printf(out, "}\n    source: \"%s; %s%s%s\"\n", c->source, c->measured, c->note[0] ? "; " : "",
			c->note);
		mf_buf_printf(out, "    rows: %zu\n    held_out: %zu\n    median: %.3f\n    p90: %.3f\n", c->n_fit,
			c->n_held, c->median, c->p90);
	}
}
