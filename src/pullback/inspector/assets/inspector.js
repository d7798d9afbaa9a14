/* The inspector's page: layout with dagre, drawing on a canvas, search, details, groups.
   Texts of the data are set as text, never as markup. There is no storage and no connection, so
   that the page works in a sandboxed frame. */
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var nodes = data.nodes;
  var byId = function (id) { return document.getElementById(id); };
  var MOST_LAID_OUT = 350; // visible boxes that dagre lays out; more are laid out by rank
  var MOST_CHILDREN = 150; // nodes that stand directly in a group; more are split into parts
  var MOST_VISIBLE = 120;  // boxes of the first view

  // --- theme --------------------------------------------------------------------------------------
  var root = document.documentElement;
  var prefersDark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = prefersDark ? "dark" : "light";
  byId("theme").onclick = function () {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    draw();
  };
  var FILLS = {
    light: { leaf: "#c9efcd", input: "#c9efcd", view: "#dbe3ff", write: "#ffdcc4", function: "#ecdcff",
      output: "#e2e6ec", operator: "#f1f4f8", group: "#fff6d6", bad: "#ffc9c9" },
    dark: { leaf: "#1f4a2a", input: "#1f4a2a", view: "#26345e", write: "#5a3518", function: "#44295e",
      output: "#333c49", operator: "#222b38", group: "#453a12", bad: "#6b1f1f" }
  };

  // --- groups -------------------------------------------------------------------------------------
  function makeGroup(name, parent) {
    return { name: name, parent: parent, groups: new Map(), nodes: [], open: false, size: 0,
      key: parent ? parent.key + "/" + name : "" };
  }
  var top = makeGroup("", null);
  nodes.forEach(function (node) {
    var group = top;
    (node.scopes || []).forEach(function (name) {
      if (!group.groups.has(name)) { group.groups.set(name, makeGroup(name, group)); }
      group = group.groups.get(name);
    });
    group.nodes.push(node.id);
  });
  function split(group) {
    Array.from(group.groups.values()).forEach(split);
    if (group.groups.size > MOST_CHILDREN) { // such as the iterations of a long loop
      var all = Array.from(group.groups.values()), step = Math.ceil(all.length / 40);
      group.groups = new Map();
      for (var first = 0; first < all.length; first += step) {
        var some = all.slice(first, first + step);
        var bundle = makeGroup(some[0].name + " to " + some[some.length - 1].name, group);
        some.forEach(function (child) { child.parent = bundle; bundle.groups.set(child.name, child); });
        group.groups.set(bundle.name, bundle);
      }
    }
    if (group.nodes.length > MOST_CHILDREN) {
      var size = Math.max(25, Math.ceil(group.nodes.length / 40));
      for (var at = 0; at < group.nodes.length; at += size) {
        var part = group.nodes.slice(at, at + size);
        var name = "nodes " + part[0] + " to " + part[part.length - 1];
        var child = makeGroup(name, group);
        child.nodes = part;
        group.groups.set(name, child);
      }
      group.nodes = [];
    }
  }
  split(top);
  var home = new Array(nodes.length); // the group of each node
  function measure(group) {
    group.size = group.nodes.length;
    group.nodes.forEach(function (id) { home[id] = group; });
    group.groups.forEach(function (child) { measure(child); group.size += child.size; });
  }
  measure(top);
  function eachGroup(visit, group) {
    (group || top).groups.forEach(function (child) { visit(child); eachGroup(visit, child); });
  }
  function children(group) { return group.groups.size + group.nodes.length; }
  function openFirst() { // opens groups, small ones first, while the view stays small
    top.open = true;
    var count = children(top);
    var waiting = Array.from(top.groups.values());
    while (waiting.length) {
      waiting.sort(function (a, b) { return children(a) - children(b); });
      var group = waiting.shift();
      if (count - 1 + children(group) > MOST_VISIBLE) { break; }
      group.open = true;
      count += children(group) - 1;
      group.groups.forEach(function (child) { waiting.push(child); });
    }
  }
  openFirst();
  function shownAs(id) { // a node's box: itself, or its outermost closed group
    var group = home[id], box = null;
    for (; group; group = group.parent) { if (!group.open) { box = group; } }
    return box;
  }

  // --- layout -------------------------------------------------------------------------------------
  var boxes = [], edges = [], boxOf = new Map();
  function layout() {
    boxes = []; edges = []; boxOf = new Map();
    var seen = new Map(), pairs = new Set();
    nodes.forEach(function (node) {
      var group = shownAs(node.id);
      var key = group || node.id;
      var box = seen.get(key);
      if (!box) {
        box = { node: group ? null : node, group: group, x: 0, y: 0, w: 0, h: 0, index: boxes.length,
          bad: false, out: [], into: [] };
        box.label = group ? group.name + " (" + group.size + ")" : node.name;
        box.w = Math.min(260, 24 + 7.4 * box.label.length);
        box.w = Math.max(box.w, 90);
        box.h = group ? 34 : 40;
        seen.set(key, box);
        boxes.push(box);
      }
      box.bad = box.bad || Boolean(node.state);
      boxOf.set(node.id, box);
    });
    nodes.forEach(function (node) {
      var target = boxOf.get(node.id);
      (node.inputs || []).forEach(function (id) {
        var source = boxOf.get(id), key = source.index + ">" + target.index;
        if (source !== target && !pairs.has(key)) {
          pairs.add(key);
          edges.push({ from: source, to: target, points: null });
          source.out.push(target); target.into.push(source);
        }
      });
    });
    if (boxes.length <= MOST_LAID_OUT) { layoutWithDagre(); } else { layoutByRank(); }
    byId("counts").textContent = data.total.toLocaleString() + " nodes, " +
      boxes.length.toLocaleString() + " shown";
  }
  function layoutWithDagre() {
    var graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 40 });
    graph.setDefaultEdgeLabel(function () { return {}; });
    boxes.forEach(function (box) { graph.setNode(String(box.index), { width: box.w, height: box.h }); });
    edges.forEach(function (edge) { graph.setEdge(String(edge.from.index), String(edge.to.index)); });
    dagre.layout(graph);
    boxes.forEach(function (box) {
      var place = graph.node(String(box.index));
      box.x = place.x; box.y = place.y;
    });
    edges.forEach(function (edge) {
      edge.points = graph.edge(String(edge.from.index), String(edge.to.index)).points;
    });
  }
  function layoutByRank() { // the longest path from the inputs; boxes are in the order of recording
    var rows = [], counts = boxes.map(function (box) { return box.into.length; });
    var ranks = new Array(boxes.length).fill(0);
    var ready = boxes.filter(function (box) { return !box.into.length; });
    for (var at = 0; at < ready.length; at++) {
      ready[at].out.forEach(function (target) {
        ranks[target.index] = Math.max(ranks[target.index], ranks[ready[at].index] + 1);
        if (!--counts[target.index]) { ready.push(target); }
      });
    }
    boxes.forEach(function (box) { (rows[ranks[box.index]] = rows[ranks[box.index]] || []).push(box); });
    rows.forEach(function (row, rank) {
      var wide = Math.max(1, Math.ceil(Math.sqrt(row.length * 4)));
      row.forEach(function (box, place) {
        box.x = 280 * (place % wide - (Math.min(wide, row.length) - 1) / 2);
        box.y = rank * 90 + 10 * Math.floor(place / wide);
      });
    });
  }

  // --- drawing ------------------------------------------------------------------------------------
  var canvas = byId("graph"), pen = canvas.getContext("2d");
  var view = { x: 0, y: 0, scale: 1 };
  var chosen = null, path = new Set();
  function color(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function resize() {
    var ratio = window.devicePixelRatio || 1, frame = canvas.getBoundingClientRect();
    canvas.width = Math.max(1, frame.width * ratio); canvas.height = Math.max(1, frame.height * ratio);
    draw();
  }
  function fit() {
    var frame = canvas.getBoundingClientRect();
    var x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
    boxes.forEach(function (box) {
      x0 = Math.min(x0, box.x - box.w / 2); x1 = Math.max(x1, box.x + box.w / 2);
      y0 = Math.min(y0, box.y - box.h / 2); y1 = Math.max(y1, box.y + box.h / 2);
    });
    if (!boxes.length) { return; }
    view.scale = Math.min(1.4, frame.width / (x1 - x0 + 60), frame.height / (y1 - y0 + 60));
    view.x = frame.width / 2 - view.scale * (x0 + x1) / 2;
    view.y = frame.height / 2 - view.scale * (y0 + y1) / 2;
    draw();
  }
  function draw() {
    var ratio = window.devicePixelRatio || 1, fills = FILLS[root.dataset.theme];
    var text = color("--text"), soft = color("--soft"), line = color("--line"), mark = color("--mark");
    var left = -view.x / view.scale, up = -view.y / view.scale;
    var right = left + canvas.width / ratio / view.scale, down = up + canvas.height / ratio / view.scale;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = color("--ground");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    edges.forEach(function (edge) { drawEdge(edge, soft, mark, left, up, right, down); });
    pen.textAlign = "center"; pen.textBaseline = "middle";
    boxes.forEach(function (box) {
      if (box.x + box.w < left || box.x - box.w > right || box.y + box.h < up || box.y - box.h > down) {
        return;
      }
      var kind = box.bad ? "bad" : box.group ? "group" : box.node.kind;
      var onPath = path.has(box);
      pen.fillStyle = fills[kind] || fills.operator;
      pen.strokeStyle = box === chosen || onPath ? mark : line;
      pen.lineWidth = (box === chosen ? 3 : onPath ? 2 : 1) / Math.max(view.scale, 0.5);
      pen.beginPath();
      pen.rect(box.x - box.w / 2, box.y - box.h / 2, box.w, box.h);
      pen.fill(); pen.stroke();
      if (view.scale < 0.25) { return; } // too small to be read
      pen.fillStyle = text;
      pen.font = (box.group ? "600 " : "") + "12px system-ui, sans-serif";
      pen.fillText(box.label.slice(0, 34), box.x, box.y - (box.group ? 0 : 8));
      if (!box.group && view.scale > 0.45) {
        pen.fillStyle = soft;
        pen.font = "11px system-ui, sans-serif";
        pen.fillText(((box.node.shapes || []).join(" ") + " " + (box.node.dtype || "")).slice(0, 34),
          box.x, box.y + 9);
      }
    });
  }
  function drawEdge(edge, soft, mark, left, up, right, down) {
    var points = edge.points || [{ x: edge.from.x, y: edge.from.y + edge.from.h / 2 },
      { x: edge.to.x, y: edge.to.y - edge.to.h / 2 }];
    var last = points[points.length - 1], first = points[0];
    if (Math.max(first.x, last.x) < left || Math.min(first.x, last.x) > right ||
        Math.max(first.y, last.y) < up || Math.min(first.y, last.y) > down) { return; }
    var onPath = path.has(edge.from) && path.has(edge.to);
    pen.strokeStyle = pen.fillStyle = onPath ? mark : soft;
    pen.lineWidth = (onPath ? 2.2 : 1) / Math.max(view.scale, 0.5);
    pen.setLineDash(edge.to.node && edge.to.node.kind === "view" ? [5, 4] : []);
    pen.beginPath();
    pen.moveTo(first.x, first.y);
    points.slice(1).forEach(function (point) { pen.lineTo(point.x, point.y); });
    pen.stroke();
    pen.setLineDash([]);
    if (view.scale > 0.3) { // the head of the arrow
      var before = points[points.length - 2];
      var angle = Math.atan2(last.y - before.y, last.x - before.x);
      pen.beginPath();
      pen.moveTo(last.x, last.y);
      pen.lineTo(last.x - 8 * Math.cos(angle - 0.4), last.y - 8 * Math.sin(angle - 0.4));
      pen.lineTo(last.x - 8 * Math.cos(angle + 0.4), last.y - 8 * Math.sin(angle + 0.4));
      pen.fill();
    }
  }

  // --- moving -------------------------------------------------------------------------------------
  function boxAt(event) {
    var frame = canvas.getBoundingClientRect();
    var x = (event.clientX - frame.left - view.x) / view.scale;
    var y = (event.clientY - frame.top - view.y) / view.scale;
    return boxes.find(function (box) {
      return Math.abs(x - box.x) <= box.w / 2 && Math.abs(y - box.y) <= box.h / 2;
    });
  }
  var drag = null;
  canvas.addEventListener("pointerdown", function (event) {
    drag = { x: event.clientX, y: event.clientY, vx: view.x, vy: view.y, moved: false };
  });
  window.addEventListener("pointermove", function (event) {
    if (!drag) { return; }
    drag.moved = drag.moved || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 4;
    view.x = drag.vx + event.clientX - drag.x; view.y = drag.vy + event.clientY - drag.y;
    draw();
  });
  window.addEventListener("pointerup", function (event) {
    var was = drag; drag = null;
    if (was && !was.moved && event.target === canvas) { choose(boxAt(event) || null); }
  });
  canvas.addEventListener("dblclick", function (event) {
    var box = boxAt(event);
    if (box && box.group) { toggle(box.group, true); }
  });
  canvas.addEventListener("wheel", function (event) {
    event.preventDefault();
    var frame = canvas.getBoundingClientRect(), factor = Math.exp(-event.deltaY * 0.0015);
    var x = event.clientX - frame.left, y = event.clientY - frame.top;
    factor = Math.min(4, Math.max(0.02, view.scale * factor)) / view.scale;
    view.x = x - (x - view.x) * factor; view.y = y - (y - view.y) * factor;
    view.scale *= factor;
    draw();
  }, { passive: false });
  canvas.addEventListener("keydown", function (event) {
    var step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { view.x += step[0]; view.y += step[1]; draw(); event.preventDefault(); }
  });
  function center(box) {
    var frame = canvas.getBoundingClientRect();
    view.scale = Math.max(view.scale, 0.7);
    view.x = frame.width / 2 - view.scale * box.x; view.y = frame.height / 2 - view.scale * box.y;
    draw();
  }
  function relayout(keep) {
    layout();
    chosen = keep === null || keep === undefined ? null : boxOf.get(keep);
    path = new Set();
    fit();
  }
  function toggle(group, open) {
    group.open = open;
    relayout(null);
    show("Details");
  }
  byId("fit").onclick = fit;
  byId("expand").onclick = function () {
    eachGroup(function (group) { group.open = true; }); relayout(null);
  };
  byId("collapse").onclick = function () {
    eachGroup(function (group) { group.open = false; }); relayout(null);
  };

  // --- paths --------------------------------------------------------------------------------------
  var users = nodes.map(function () { return []; });
  nodes.forEach(function (node) { (node.inputs || []).forEach(function (id) { users[id].push(node.id); }); });
  function shortestPath(id) { // the ids from a node to the nearest output
    var before = new Map([[id, null]]), waiting = [id], ends = new Set(data.roots);
    for (var at = 0; at < waiting.length; at++) {
      if (ends.has(waiting[at])) {
        var found = [];
        for (var step = waiting[at]; step !== null; step = before.get(step)) { found.push(step); }
        return found;
      }
      users[waiting[at]].forEach(function (next) {
        if (!before.has(next)) { before.set(next, waiting[at]); waiting.push(next); }
      });
    }
    return [];
  }
  function choose(box) {
    chosen = box;
    path = new Set();
    if (box && box.node) {
      shortestPath(box.node.id).forEach(function (id) { path.add(boxOf.get(id)); });
    }
    draw();
    show("Details");
  }
  function goTo(id) {
    for (var group = home[id]; group; group = group.parent) { group.open = true; }
    layout();
    choose(boxOf.get(id));
    center(boxOf.get(id));
  }

  // --- panels -------------------------------------------------------------------------------------
  function element(tag, text, parent, className) {
    var made = document.createElement(tag);
    if (text !== undefined && text !== null) { made.textContent = text; }
    if (className) { made.className = className; }
    if (parent) { parent.appendChild(made); }
    return made;
  }
  function bytes(count) {
    if (count < 1000) { return count + " B"; }
    var units = ["kB", "MB", "GB"], at = -1;
    while (count >= 1000 && at < 2) { count /= 1000; at++; }
    return count.toFixed(2) + " " + units[at];
  }
  function time(nanoseconds) {
    return nanoseconds < 1e6 ? (nanoseconds / 1e3).toFixed(1) + " us" : (nanoseconds / 1e6).toFixed(2) + " ms";
  }
  function table(parent, head, rows) {
    var made = element("table", null, parent);
    if (head) { head.forEach(function (name) { element("th", name, this); }, element("tr", null, made)); }
    rows.forEach(function (row) {
      var line = element("tr", null, made);
      row.forEach(function (cell) {
        var place = element("td", cell instanceof Node ? null : cell, line);
        if (cell instanceof Node) { place.appendChild(cell); }
      });
    });
  }
  function nodeLink(id) {
    var link = element("a", nodes[id].name + " (" + id + ")", null, "node");
    link.onclick = function () { goTo(id); };
    return link;
  }
  function links(ids) {
    var made = document.createElement("span");
    ids.forEach(function (id, place) {
      if (place) { made.append(", "); }
      made.appendChild(nodeLink(id));
    });
    return made;
  }
  var panels = {
    Details: function (panel) {
      if (!chosen) {
        element("p", "Click a node. Double-click a group to open it. Drag and scroll to move.", panel);
        if (!nodes.length) { element("p", data.total ? "The graph is too large to be drawn: see the operators." : "The result has no recorded graph.", panel, "warn"); }
        return;
      }
      if (chosen.group) { groupDetails(panel, chosen.group); } else { nodeDetails(panel, chosen.node); }
    },
    Inputs: function (panel) {
      if (!data.inputs.length) { element("p", "No inputs were given: pb.inspect(y, inputs=[x]).", panel); }
      data.inputs.forEach(function (input) {
        element("h3", input.name, panel);
        element("p", input.text, panel, input.node === null ? "warn" : "");
        if (input.node !== null) { panel.appendChild(nodeLink(input.node)); }
      });
    },
    "First NaN": function (panel) {
      var wrong = data.bad_cotangent;
      if (wrong) {
        element("h3", "Backward pass", panel);
        element("p", "The first cotangent that is not finite is returned by " + wrong.name + ".", panel, "warn");
        if (nodes.length) {
          panel.appendChild(nodeLink(wrong.node));
          element("p", nodes[wrong.node].line || "", panel);
          element("h3", "Returned to", panel);
          table(panel, ["node", "line"], wrong.reached.map(function (id) { return [nodeLink(id), nodes[id].line || ""]; }));
        }
        element("h3", "Forward pass", panel);
      }
      if (!data.bad) { element("p", "Every value that can be seen is finite.", panel); return; }
      element("p", "The first value that is " + data.bad.state + " belongs to " + data.bad.name + ".", panel, "warn");
      if (!nodes.length) { return; }
      panel.appendChild(nodeLink(data.bad.node));
      element("h3", "Computed from", panel);
      var rows = data.bad.history.map(function (id) { return [nodeLink(id), nodes[id].line || ""]; });
      table(panel, ["node", "line"], rows);
    },
    Memory: function (panel) {
      var values = data.memory, most = Math.max.apply(null, values.concat([1]));
      element("p", "Saved values over the forward pass and the backward pass: at most " + bytes(most) + ".", panel);
      var NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg");
      svg.setAttribute("viewBox", "0 0 1000 200"); svg.setAttribute("preserveAspectRatio", "none");
      var line = document.createElementNS(NS, "polyline");
      line.setAttribute("points", values.map(function (value, place) {
        return (1000 * place / Math.max(values.length - 1, 1)) + "," + (198 - 190 * value / most);
      }).join(" "));
      line.setAttribute("fill", "none"); line.setAttribute("stroke", color("--link"));
      line.setAttribute("stroke-width", "3"); line.setAttribute("vector-effect", "non-scaling-stroke");
      svg.appendChild(line); panel.appendChild(svg);
    },
    Operators: function (panel) {
      if (data.profile.length) {
        element("h3", "Profile", panel);
        table(panel, ["name", "phase", "calls", "self", "total", "memory"], data.profile.map(function (row) {
          return [row.name, row.phase, row.calls, time(row.self_time), time(row.total_time), bytes(row.nbytes)];
        }));
      }
      element("h3", "Nodes", panel);
      table(panel, ["name", "nodes", "saved"], data.operators.map(function (row) {
        return [row.name, row.count.toLocaleString(), bytes(row.bytes)];
      }));
    }
  };
  function nodeDetails(panel, node) {
    element("h2", node.name, panel);
    var rows = [["kind", node.kind]];
    function add(name, value) { if (value !== undefined && value !== null && value !== "") { rows.push([name, value]); } }
    add("operator", node.operator);
    add("shape", (node.shapes || []).join(", "));
    add("dtype", node.dtype);
    add("line", node.line);
    add("inside", (node.scopes || []).join(" / "));
    add("hooks", (node.hooks || []).join(", "));
    if (node.state) { add("values", "not finite: " + node.state); }
    if (node.cotangent_norm !== undefined) { add("cotangent norm", Number(node.cotangent_norm).toPrecision(6)); }
    if (node.forward_time) { add("forward", time(node.forward_time)); }
    if (node.backward_time) { add("backward", time(node.backward_time)); }
    if (node.inputs) { add("inputs", links(Array.from(new Set(node.inputs)))); }
    if (users[node.id].length) { add("used by", links(users[node.id].slice(0, 20))); }
    table(panel, null, rows);
    if (node.formulas) {
      element("h3", "Formulas", panel);
      table(panel, null, Object.keys(node.formulas).map(function (name) { return [name, node.formulas[name]]; }));
    }
    if (node.saved) {
      element("h3", "Saved values", panel);
      table(panel, ["name", "shape", "dtype", "bytes", "version", ""], node.saved.map(function (value) {
        return [value.name, value.shape ? "[" + value.shape.join(", ") + "]" : "", value.dtype,
          bytes(value.nbytes), value.version, value.state];
      }));
    }
    var group = home[node.id];
    if (group && group.parent) {
      var close = element("button", "Collapse " + group.name, element("p", null, panel));
      close.onclick = function () { toggle(group, false); };
    }
  }
  function groupDetails(panel, group) {
    element("h2", group.name, panel);
    var counts = new Map(), saved = 0, backward = 0;
    (function visit(inner) {
      inner.nodes.forEach(function (id) {
        var node = nodes[id];
        counts.set(node.name, (counts.get(node.name) || 0) + 1);
        (node.saved || []).forEach(function (value) { saved += value.nbytes; });
        backward += node.backward_time || 0;
      });
      inner.groups.forEach(visit);
    })(group);
    table(panel, null, [["nodes", group.size.toLocaleString()], ["saved", bytes(saved)], ["backward", time(backward)]]);
    element("button", "Open", element("p", null, panel)).onclick = function () { toggle(group, true); };
    table(panel, ["name", "nodes"], Array.from(counts).sort(function (a, b) { return b[1] - a[1]; }));
  }
  var current = "Details";
  function show(name) {
    current = name;
    var panel = byId("panel");
    panel.textContent = "";
    panels[name](panel);
    Array.from(byId("tabs").children).forEach(function (tab) {
      tab.setAttribute("aria-selected", String(tab.textContent === name));
    });
  }
  Object.keys(panels).forEach(function (name) {
    element("button", name, byId("tabs")).onclick = function () { show(name); };
  });

  // --- search -------------------------------------------------------------------------------------
  var searchBox = byId("search"), results = byId("results");
  searchBox.addEventListener("input", function () {
    var words = searchBox.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.textContent = "";
    results.hidden = !words.length;
    if (!words.length) { return; }
    var count = 0;
    for (var at = 0; at < nodes.length && count < 40; at++) {
      var node = nodes[at];
      var text = (node.name + " " + (node.operator || "") + " " + (node.line || "") + " " +
        (node.scopes || []).join(" ") + " " + (node.hooks || []).join(" ") + " " + node.id).toLowerCase();
      if (words.every(function (word) { return text.indexOf(word) >= 0; })) {
        addResult(node);
        count++;
      }
    }
    if (!count) { element("li", "Nothing found.", results); }
  });
  function addResult(node) {
    var item = element("li", node.name + " (" + node.id + ") ", results);
    element("small", (node.shapes || []).join(" ") + " " + (node.line || ""), item);
    item.onclick = function () { results.hidden = true; goTo(node.id); };
  }
  searchBox.addEventListener("keydown", function (event) {
    if (event.key === "Enter" && results.firstChild) { results.firstChild.click(); }
    if (event.key === "Escape") { searchBox.value = ""; results.hidden = true; }
  });

  layout();
  show(data.bad || data.bad_cotangent ? "First NaN" : nodes.length ? "Details" : "Operators");
  window.addEventListener("resize", resize);
  resize();
  fit();
  if (view.scale < 0.3 && data.roots.length) { center(boxOf.get(data.roots[0])); } // readable at once
  window.inspector = { // for tests: places on the screen, and the time of the first drawing
    firstDraw: performance.now(),
    place: function (id) {
      var frame = canvas.getBoundingClientRect(), box = boxOf.get(id);
      return [frame.left + view.x + view.scale * box.x, frame.top + view.y + view.scale * box.y];
    },
    shown: function () { return boxes.length; },
    pathLength: function () { return path.size; }
  };
})();
