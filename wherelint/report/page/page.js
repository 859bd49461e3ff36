"use strict";
const root = document.documentElement;
const search = document.getElementById("search");
const rows = [...document.querySelectorAll("tr[data-for]")];
const choices = [...document.querySelectorAll("select[data-key]")];
const shortcuts = [...document.querySelectorAll("button[data-key]")];
const articles = new Map(rows.map(row => [row, document.getElementById(row.dataset.for)]));
const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));

function filter() {
  const words = search.value.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const row of rows) {
    const fits = choices.every(choice => !choice.value || row.dataset[choice.dataset.key] === choice.value)
      && words.every(word => texts.get(row).includes(word));
    row.hidden = articles.get(row).hidden = !fits;
    shown += fits;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length}`;
  for (const button of shortcuts) {
    const choice = choices.find(each => each.dataset.key === button.dataset.key);
    button.setAttribute("aria-pressed", choice.value === button.dataset.value);
  }
}

function move(step) {
  const shown = rows.map(row => articles.get(row)).filter(article => !article.hidden);
  const now = shown.indexOf(document.activeElement.closest("article"));
  const next = shown[now < 0 ? (step > 0 ? 0 : shown.length - 1) : now + step];
  if (next) {
    next.focus({ preventScroll: true });
    next.scrollIntoView();
  }
}

function theme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("wherelint-theme", name); } catch { /* a page of a file may not keep anything */ }
}

function toggle() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme(dark ? "light" : "dark");
}

try {
  const kept = localStorage.getItem("wherelint-theme");
  if (kept) root.dataset.theme = kept;
} catch { /* the same */ }
document.getElementById("theme").addEventListener("click", toggle);
if (search) {
  search.form.addEventListener("submit", event => event.preventDefault());
  search.form.addEventListener("input", filter);
  for (const button of shortcuts) {
    button.addEventListener("click", () => {
      const choice = choices.find(each => each.dataset.key === button.dataset.key);
      choice.value = choice.value === button.dataset.value ? "" : button.dataset.value;
      filter();
    });
  }
  filter();
}
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && search) {
    search.form.reset();
    filter();
    document.activeElement.blur();
  } else if (!event.target.closest("input, select")) {
    if (event.key === "t") toggle();
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  }
});
