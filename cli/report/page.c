/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: the page around the sections. One style sheet, no script, nothing from elsewhere. */
#include "report/report.h"

#include "progress.h"
#include "rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Colours have names, so that a dark screen changes them in one place. Contrast of text is at least 4.5 to 1. */
static const char light[] = "--page:#f4f5f7;--card:#fff;--ink:#1a1f26;--soft:#545d68;--rule:#d8dde3;--faint:#eef0f3;"
                            "--accent:#0b5cad;--own:#e8f1fb;--s1:#0b5cad;--s2:#c2570c;--s3:#2c7a4b;--s4:#7a4fa3;"
                            "--s5:#8a6d00;--s6:#b0306a;--sure:#1d6b3e;--sure-bg:#e3f3e9;--bound:#80540a;"
                            "--bound-bg:#fbf0d9;--guess:#8d2f28;--guess-bg:#fbe7e4;--plain:#545d68;--plain-bg:#eceff2";
static const char dark[] = "--page:#0f1216;--card:#171b21;--ink:#e7eaee;--soft:#a3adb8;--rule:#333b45;--faint:#20262e;"
                           "--accent:#74b3f0;--own:#1a2c40;--s1:#74b3f0;--s2:#f2a065;--s3:#74c794;--s4:#c3a0ea;"
                           "--s5:#dcc05a;--s6:#f08db8;--sure:#8fd6aa;--sure-bg:#1b3326;--bound:#ebc67c;"
                           "--bound-bg:#3a2f17;--guess:#f3a39a;--guess-bg:#3f2120;--plain:#a3adb8;--plain-bg:#262d36";

/* clang-format off */
static const char style[] =
    "*{box-sizing:border-box}html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\n"
    "body{margin:0;background:var(--page);color:var(--ink);"
    "font:1rem/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation Sans',Arial,"
    "sans-serif;font-variant-numeric:tabular-nums}\n"
    "main,header,footer{max-width:72rem;margin:0 auto;padding:0 1.25rem}header{padding-top:2.5rem}\n"
    "h1{font-size:clamp(1.6rem,1.2rem + 1.8vw,2.3rem);line-height:1.2;margin:0 0 .4rem;letter-spacing:-.015em;"
    "overflow-wrap:anywhere}\n"
    "h2{font-size:1.3rem;line-height:1.3;margin:0 0 .75rem;letter-spacing:-.01em}\n"
    "h3{font-size:1rem;margin:1.2rem 0 .3rem}p{margin:0 0 .8rem;max-width:46rem;overflow-wrap:break-word}\n"
    "a{color:var(--accent)}.over{color:var(--soft);font-size:.85rem;margin:0 0 .4rem}\n"
    ".under{color:var(--soft);margin:0 0 1.2rem}\n"
    "nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:0 0 1.4rem;padding:0;font-size:.9rem}\n"
    "nav a{text-decoration:none}nav a:hover{text-decoration:underline}\n"
    "section{background:var(--card);border:1px solid var(--rule);border-radius:.7rem;padding:1.4rem 1.6rem;"
    "margin:0 0 1.2rem;min-width:0}\n"
    ".lead{color:var(--soft)}h2+.lead{margin-top:-.4rem}.nb{white-space:nowrap}\n"
    ".statement{border-left:4px solid var(--accent);padding:.1rem 0 .1rem 1rem;margin:0 0 1.3rem}\n"
    ".statement p{margin:0 0 .4rem;font-size:.95rem;max-width:58rem;color:var(--soft)}\n"
    ".statement p:first-child{font-size:1.12rem;color:var(--ink);margin-bottom:.6rem}\n"
    ".tiles{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:.8rem;margin:0 0 1.4rem;padding:0;"
    "list-style:none}\n"
    ".tiles.few{grid-template-columns:repeat(3,minmax(0,1fr))}\n"
    ".tiles li{background:var(--faint);border-radius:.55rem;padding:.75rem .9rem}\n"
    ".tiles .what{display:block;color:var(--soft);font-size:.85rem}\n"
    ".tiles .big{display:block;font-size:1.5rem;font-weight:600;letter-spacing:-.02em;line-height:1.35}\n"
    ".tiles .why{display:block;font-size:.8rem;color:var(--soft);line-height:1.4;margin-top:.15rem}\n"
    ".badge{display:inline-block;font-size:.74rem;line-height:1.35;padding:.06rem .42rem;border-radius:.3rem;"
    "white-space:nowrap;color:var(--plain);background:var(--plain-bg);font-weight:500}\n"
    ".badge.sure{color:var(--sure);background:var(--sure-bg)}\n"
    ".badge.bound{color:var(--bound);background:var(--bound-bg)}\n"
    ".badge.guess{color:var(--guess);background:var(--guess-bg)}\n"
    ".badge.mine{color:var(--card);background:var(--accent)}\n"
    "dl.facts{display:grid;grid-template-columns:9.5rem minmax(0,1fr) 9.5rem minmax(0,1fr);margin:0;font-size:.92rem}\n"
    "dt.wide{grid-column:1}dd.wide{grid-column:2/-1}\n"
    "@media (max-width:64rem){\n"
    "dl.facts{grid-template-columns:9.5rem minmax(0,1fr)}\n"
    "}\n"
    ".facts dt{color:var(--soft);padding:.38rem 1rem .38rem 0;border-top:1px solid var(--faint)}\n"
    ".facts dd{margin:0;padding:.38rem 0;border-top:1px solid var(--faint);overflow-wrap:anywhere;min-width:0}\n"
    "code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;font-size:.9em;"
    "overflow-wrap:anywhere}\n"
    "pre{background:var(--faint);border-radius:.45rem;padding:.7rem .9rem;margin:0 0 .9rem;overflow-x:auto}\n"
    "pre code{overflow-wrap:normal}\n"
    ".frame-x{overflow-x:auto;margin:0 0 1rem;border:1px solid var(--rule);border-radius:.5rem}\n"
    ".frame-x:focus-visible{outline:2px solid var(--accent)}\n"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.4}\n"
    "th,td{padding:.5rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--rule)}\n"
    "thead th{border-top:0;font-weight:600;color:var(--soft);background:var(--faint);vertical-align:bottom}\n"
    "tbody th{font-weight:500;min-width:9rem;max-width:21rem}.num{text-align:right;white-space:nowrap}\n"
    "tr.own th,tr.own td{background:var(--own)}tr.own th{font-weight:700}\n"
    "tr.out td,tr.out th{color:var(--soft)}.sub{display:block;font-size:.8rem;color:var(--soft);font-weight:400}\n"
    ".meter{display:block;height:0;border-top:4px solid var(--s1);border-radius:2px;margin:.25rem 0 0;min-width:3px}\n"
    "tr.own .meter{border-color:var(--s2)}.meter.over{border-top-style:dotted}\n"
    ".pair{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(27rem,100%),1fr));gap:1.2rem 2rem}\n"
    ".pair>*{min-width:0}figure{margin:0 0 .4rem}figure>svg{display:block;width:100%;height:auto}\n"
    "figcaption{font-size:.86rem;color:var(--soft);margin-top:.4rem}figcaption p{margin:0 0 .3rem;max-width:40rem}\n"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1.2rem;margin:.2rem 0 0;padding:0;"
    "font-size:.86rem}\n"
    ".legend li{display:flex;align-items:center;gap:.45rem;min-width:0}.key{width:34px;height:12px;flex:none}\n"
    ".key.small{width:12px}details{margin:.2rem 0 0}summary{cursor:pointer;color:var(--accent)}\n"
    "details .frame-x{margin-top:.5rem;max-height:22rem;overflow-y:auto}svg text{fill:var(--soft);font-size:15px}\n"
    "svg .title{fill:var(--ink);font-weight:500}\n"
    "svg .mark{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:5px;"
    "stroke-linejoin:round}\n"
    ".grid{stroke:var(--rule);stroke-width:1;fill:none}.frame{stroke:var(--soft);stroke-width:1.2;fill:none}\n"
    ".outline{stroke:var(--soft);stroke-width:1;fill:none}.paper{fill:var(--card)}\n"
    ".line{fill:none;stroke-width:2.6;stroke-linejoin:round;stroke-linecap:round}.line.thin{stroke-width:1.6}\n"
    ".ring{fill:none;stroke:var(--ink);stroke-width:2}.hollow{fill:var(--card);stroke-width:2}\n"
    "ul.notes{padding-left:1.2rem;margin:0 0 1rem;max-width:50rem}\n"
    "ul.notes li{margin:0 0 .45rem;overflow-wrap:break-word}.refs{font-size:.9rem}\n"
    "footer{color:var(--soft);font-size:.85rem;padding-bottom:2.5rem}footer p{max-width:none}\n"
    "@media (max-width:40rem){\n"
    "main,header,footer{padding-left:.75rem;padding-right:.75rem}header{padding-top:1.4rem}\n"
    "section{padding:1.05rem .95rem;border-radius:.55rem}dl.facts{grid-template-columns:7.6rem minmax(0,1fr)}\n"
    ".tiles,.tiles.few{grid-template-columns:repeat(2,minmax(0,1fr));gap:.55rem}.tiles li{padding:.6rem .7rem}\n"
    ".tiles .big{font-size:1.25rem}svg text{font-size:22px}svg .side{font-size:19px}svg .more{display:none}\n"
    ".line{stroke-width:3.4}\n"
    ".reason{display:none}tr.own .reason,tr.out .reason,tr.best .reason{display:block}\n"
    "}\n";
/* clang-format on */

/* clang-format off */
static const char printed[] =
    "html{font-size:9.5pt}body{background:#fff}main,header,footer{max-width:none;padding:0}nav,details{display:none}\n"
    "section{border:0;border-top:1px solid var(--rule);border-radius:0;padding:1rem 0;margin:0}\n"
    "h2,h3,.lead{break-after:avoid}figure,tr,.tiles li,.statement,dl.facts>*{break-inside:avoid}\n"
    "thead{display:table-header-group}.frame-x{overflow:visible;border:0}table{font-size:.82rem}\n"
    "th,td{padding:.25rem .35rem}thead th,.num{white-space:normal}.reason{display:none}\n"
    "tr.own .reason,tr.out .reason,tr.best .reason{display:block}.tiles{grid-template-columns:repeat(4,1fr)}\n"
    "dl.facts{grid-template-columns:8rem minmax(0,1fr) 8rem minmax(0,1fr)}.tiles li{border:1px solid var(--rule)}\n"
    ".badge{border:1px solid currentColor}.pair{grid-template-columns:1fr 1fr;gap:1rem}svg text{font-size:17px}\n"
    "a{color:inherit;text-decoration:none}pre{border:1px solid var(--rule)}p,.statement p{max-width:none}\n";
/* clang-format on */

static void series_rules(text_buffer *t) {
    static const char *const dashes[] = {"", "9 6", "2 6", "14 5 2 5", "5 4", "18 6"};
    for (int i = 1; i <= 6; ++i) {
        text_add(t, ".line.s%d,.hollow.s%d{stroke:var(--s%d)}.dot.s%d{fill:var(--s%d)}", i, i, i, i, i);
        if (i > 1) text_add(t, ".line.s%d:not(.thin){stroke-dasharray:%s}", i, dashes[i - 1]);
    }
    text_add(t, "\n");
}

void page_begin(text_buffer *t, const char *title) {
    text_add(t,
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
             "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
             "<meta name=\"generator\" content=\"dpmf ");
    text_add(t, "%s\">\n<title>", dpmf_version());
    html_text(t, title);
    text_add(t, "</title>\n<style>\n:root{color-scheme:light dark;%s}\n%s", light, style);
    series_rules(t);
    heat_colours(t, false);
    text_add(t, "@media screen and (prefers-color-scheme:dark){:root{%s}\n", dark);
    heat_colours(t, true);
    text_add(t, "}\n@media print{:root{color-scheme:light}%s}\n</style>\n</head>\n<body>\n", printed);
}

void page_end(text_buffer *t) {
    text_add(t, "</body>\n</html>\n");
}

/* ---- parts of sections ---- */

void section_begin(text_buffer *t, const char *id, const char *title, const char *lead) {
    text_add(t, "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n", id, id, id, title);
    if (lead != NULL) text_add(t, "<p class=\"lead\">%s</p>\n", lead);
}

void section_end(text_buffer *t) {
    text_add(t, "</section>\n\n");
}

void figure_begin(text_buffer *t) {
    text_add(t, "<figure>\n");
}

void figure_caption(text_buffer *t, const char *format, ...) {
    char text[1200];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    text_add(t, "<figcaption><p>");
    html_text(t, text);
    text_add(t, "</p>\n");
}

void figure_end(text_buffer *t) {
    text_add(t, "</figcaption></figure>\n");
}

void table_begin(text_buffer *t, const char *label, const char *heads) {
    text_add(t, "<div class=\"frame-x\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>", label);
    int length;
    for (const char *head = next_word(&heads, &length); head != NULL; head = next_word(&heads, &length)) {
        bool number = *head == '#';
        text_add(t, "<th scope=\"col\"%s>%.*s</th>", number ? " class=\"num\"" : "", length - number, head + number);
    }
    text_add(t, "</tr></thead>\n<tbody>\n");
}

void table_end(text_buffer *t) {
    text_add(t, "</tbody></table></div>\n");
}

void details_begin(text_buffer *t, const char *heads) {
    text_add(t, "<details><summary>Numbers of this picture</summary>");
    table_begin(t, "numbers of the picture", heads);
}

void details_row(text_buffer *t, int count, const double *values) {
    char text[NUMBER];
    text_add(t, "<tr>");
    for (int i = 0; i < count; ++i)
        text_add(t, "<td class=\"num\">%s</td>", pretty(values[i], 6, text));
    text_add(t, "</tr>\n");
}

void details_end(text_buffer *t) {
    table_end(t);
    text_add(t, "</details>\n");
}

int page_write(const char *path, const text_buffer *t) {
    row_output out;
    if (t->failed) return fail_memory();
    progress_clear();
    int code = rows_open(path, false, &out);
    if (code == 0) code = rows_write(&out, t->bytes, t->length);
    if (code == 0) code = rows_finish(&out);
    rows_close(&out);
    return code;
}
