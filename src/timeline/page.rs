//! The picture as a web page.

use crate::eval::chart::text;

/// Magnifies the picture, and shows what a title says where the pointer is. Where no script runs, the
/// browser shows the titles itself.
const SCRIPT: &str = r#"<script>
(function () {
  "use strict";
  var svg = document.querySelector("svg"), bar = document.querySelector("nav"), tip = document.querySelector("output");
  var width = svg.width.baseVal.value, height = svg.height.baseVal.value, scale = 1, shown = null;
  function magnify(to) {
    scale = Math.min(8, Math.max(0.5, to));
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
  }
  function titled(element) {
    while (element && element !== svg) {
      var child = element.firstElementChild;
      if (child && child.nodeName === "title") { return child; }
      element = element.parentNode;
    }
    return null;
  }
  bar.hidden = false;
  bar.addEventListener("click", function (event) {
    var by = event.target.getAttribute("data-by");
    if (by) { magnify(by === "1" ? 1 : scale * Number(by)); }
  });
  // Browsers would show the titles as well, later and over what the pointer is on.
  svg.addEventListener("mousemove", function (event) {
    var title = titled(event.target);
    if (shown && shown.title !== title) { shown.title.textContent = shown.words; shown = null; }
    if (title && !shown) { shown = { title: title, words: title.textContent }; title.textContent = ""; }
    tip.hidden = !shown;
    if (shown) {
      tip.textContent = shown.words;
      tip.style.left = Math.max(0, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
      var below = event.clientY + 18;
      tip.style.top = (below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : below) + "px";
    }
  });
  svg.addEventListener("mouseleave", function () {
    if (shown) { shown.title.textContent = shown.words; shown = null; }
    tip.hidden = true;
  });
}());
</script>
"#;

const STYLE: &str = "<style>
:root { color-scheme: light dark; }
body { margin: 16px; font-family: system-ui, sans-serif; background: #f4f5f7; color: #1e2329; }
main { overflow-x: auto; }
svg { display: block; margin: 0 auto; }
nav { margin: 0 0 8px; text-align: center; }
nav button { font: inherit; min-width: 2.6em; }
output { position: fixed; max-width: 480px; padding: 5px 9px; border-radius: 5px; font-size: 13px; \
pointer-events: none; overflow-wrap: anywhere; background: #1e2329; color: #fff; }
@media (prefers-color-scheme: dark) {
body { background: #0b0e12; color: #e8eaed; }
output { background: #e8eaed; color: #13181e; }
}
@media print { nav { display: none; } }
</style>
";

pub(super) fn html(svg: &str, when: &str) -> String {
    let title = text::escape(&format!("Timeline, {when}"));
    let buttons = [("0.8", "−", "smaller"), ("1", "1:1", "as it is"), ("1.25", "+", "larger")];
    let button = |(by, sign, name): (&str, &str, &str)| {
        format!("<button type=\"button\" data-by=\"{by}\" aria-label=\"{name}\">{sign}</button>\n")
    };
    let buttons: String = buttons.into_iter().map(button).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n{STYLE}</head>\n<body>\n\
         <nav hidden>\n{buttons}</nav>\n<main>\n{svg}</main>\n<output hidden></output>\n{SCRIPT}</body>\n</html>\n"
    )
}
