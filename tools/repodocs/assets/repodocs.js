/* The search box and the theme button. No network: the names come from repodocs-names.js, which is
   loaded on the first use of the box. Texts are set as text, never as markup. */
(function () {
  "use strict";
  var root = document.documentElement;
  var stored = null;
  try { stored = localStorage.getItem("repodocs-theme"); } catch (e) { /* a sandbox has none */ }
  var dark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = stored === "dark" || stored === "light" ? stored : dark ? "dark" : "light";

  document.getElementById("theme").addEventListener("click", function () {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("repodocs-theme", root.dataset.theme); } catch (e) { /* the same */ }
  });

  var base = document.body.dataset.root;
  var box = document.getElementById("search");
  var list = document.getElementById("results");
  var MOST = 40;
  var chosen = -1;
  var loading = false;

  function load() {
    if (loading) { return; }
    loading = true;
    var script = document.createElement("script");
    script.src = base + "repodocs-names.js";
    script.onload = show;
    document.head.appendChild(script);
  }

  function score(name, words) {
    var total = 0;
    for (var i = 0; i < words.length; i++) {
      var at = name.indexOf(words[i]);
      if (at < 0) { return 0; }
      total += at === 0 ? (name.length === words[i].length ? 8 : 4) : 1;
    }
    return total + 1 / (1 + name.length);
  }

  function find(text) {
    var data = window.REPODOCS;
    var words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!data || !words.length) { return []; }
    var found = [];
    data.names.forEach(function (entry) { // name, kind, number of the file, line
      var points = score(entry[0].toLowerCase(), words);
      if (points) {
        var file = data.files[entry[2]];
        var anchor = data.lines ? "#L" + entry[3] : "";
        found.push([points, entry[0], entry[1] + ", " + file[0] + ":" + entry[3], file[1] + anchor]);
      }
    });
    data.files.forEach(function (file) { // path, address, purpose
      var path = file[0].toLowerCase();
      var points = Math.max(score(path, words), score(path.split("/").pop(), words));
      if (points) { found.push([points, file[0], file[2], file[1]]); }
    });
    found.sort(function (a, b) { return b[0] - a[0] || (a[1] < b[1] ? -1 : 1); });
    return found.slice(0, MOST);
  }

  function show() {
    var text = box.value.trim();
    list.textContent = "";
    list.hidden = !text;
    chosen = -1;
    if (!text) { return; }
    var found = find(text);
    found.forEach(function (entry) {
      var link = document.createElement("a");
      var detail = document.createElement("small");
      link.href = base + entry[3];
      link.textContent = entry[1];
      detail.textContent = entry[2];
      link.appendChild(detail);
      list.appendChild(document.createElement("li")).appendChild(link);
    });
    if (!found.length) {
      var none = document.createElement("li");
      none.className = "none";
      none.textContent = window.REPODOCS ? "Nothing found." : "Loading …";
      list.appendChild(none);
    }
  }

  function choose(step) {
    var items = list.querySelectorAll("li:not(.none)");
    if (!items.length) { return; }
    if (items[chosen]) { items[chosen].classList.remove("chosen"); }
    chosen = (chosen + step + items.length) % items.length;
    items[chosen].classList.add("chosen");
    items[chosen].scrollIntoView({ block: "nearest" });
  }

  box.addEventListener("focus", load);
  box.addEventListener("input", function () { load(); show(); });
  box.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      var item = list.querySelectorAll("li:not(.none)")[Math.max(chosen, 0)];
      if (item) { item.firstChild.click(); }
    } else if (event.key === "Escape") {
      box.value = "";
      show();
    }
  });
  document.addEventListener("keydown", function (event) {
    var tag = document.activeElement && document.activeElement.tagName;
    if (event.key === "/" && tag !== "INPUT") { event.preventDefault(); box.focus(); }
  });
  document.addEventListener("click", function (event) {
    if (!event.target.closest(".search")) { list.hidden = true; }
  });
})();
