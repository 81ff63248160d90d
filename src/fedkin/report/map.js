// Maps: colour, filter, search, recut at another scale, zoom and pan. Tips and arrow keys are the page's own.
document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".plane:has(> script)").forEach(figure => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg"), legend = figure.querySelector(".legend");
  const dots = [...svg.querySelectorAll("circle")], radii = dots.map(dot => +dot.getAttribute("r"));
  const whole = svg.viewBox.baseVal, [width, height] = [whole.width, whole.height];
  const names = JSON.parse(document.getElementById("cluster-names").textContent);
  const isFound = () => +scale.value === data.chosen; // whose clusters alone have names
  const cluster = number => number < 0 ? "In no cluster" : "Cluster " + number + (isFound() && names[number] ? ", " + names[number] : "");
  const size = at => data.sizes ? data.sizes[at] : 1;
  const look = number => number < 0 ? "alone" : "c" + number % 8 + " m" + Math.floor(number / 8) % 3;
  const make = (name, attributes, ...content) => {
    const element = document.createElement(name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    element.append(...content);
    return element;
  };

  // What a reader chooses.

  const controls = make("div", {class: "controls"});
  const choose = (title, options) => {
    const select = make("select", {}, ...options.map(([value, text]) => make("option", {value}, text)));
    controls.append(make("label", {}, title, select));
    return select;
  };
  const ways = [["cluster", "cluster"]];
  const isShared = data.clients && new Set(data.clients.filter(client => client >= 0)).size > 1;
  if (isShared) ways.push(["share", "client's share"]);
  if (data.confidence) ways.push(["confidence", "confidence"]);
  if (data.classes) ways.push(["class", "true class"]);
  const colour = choose("Colour by", ways);
  const client = choose("Client", [["", "all"], ...(isShared ? data.names.map((name, at) => [at, name]) : [])]);
  const one = choose("Cluster", []);
  client.parentNode.hidden = !isShared;
  colour.parentNode.hidden = ways.length < 2;
  const query = make("input", {type: "search", autocomplete: "off"});
  if (data.ids) controls.append(make("label", {}, "Find " + data.idName, query));
  const zooms = [["+", "Zoom in"], ["−", "Zoom out"], ["⟲", "Show all"]].map(([text, title]) =>
    make("button", {type: "button", title, "aria-label": title}, text));
  controls.append(make("span", {class: "zooms"}, ...zooms));
  const scale = make("input", {type: "range", min: 0, max: data.cuts.length - 1, value: data.chosen, "aria-label": "Scale"});
  const title = make("output", {});
  const slider = make("label", {class: "scale"}, "Coarser", scale, "finer", title);
  slider.hidden = data.cuts.length < 2;
  const status = make("output", {class: "key", "aria-live": "polite"});
  const hint = make("p", {class: "key"}, "With the keyboard: arrows go from point to point, + and − zoom, 0 shows all, Shift and arrows move the view.");
  const spoken = make("ul", {class: "described"});
  svg.before(controls, slider);
  legend.after(status, hint, spoken);

  // What follows from it.

  const totals = clusters => {
    const sums = new Map();
    clusters.forEach((number, at) => {
      const sum = sums.get(number) || {all: 0, points: 0, clients: {}, classes: {}};
      sum.all += size(at);
      sum.points += 1;
      if (data.clients) sum.clients[data.clients[at]] = (sum.clients[data.clients[at]] || 0) + size(at);
      sums.set(number, sum);
    });
    return sums;
  };
  const mixed = part => "color-mix(in oklab, var(--heat) " + Math.round(100 * part) + "%, var(--rule))";
  const homes = {}; // a true class has the colour of the cluster that holds most of it
  (data.classes || []).forEach((label, at) => {
    const counts = homes[label] = homes[label] || {};
    counts[data.cuts[data.chosen][at]] = (counts[data.cuts[data.chosen][at]] || 0) + 1;
  });
  Object.keys(homes).forEach(label => { homes[label] = +Object.entries(homes[label]).sort((a, b) => b[1] - a[1])[0][0]; });
  const mark = (number, text) => make("li", {}, make("span", {class: "dot " + look(number), "aria-hidden": "true"}), text);
  const list = clusters => {
    if (colour.value === "cluster") legend.replaceChildren(...clusters.map(number => mark(number, cluster(number))));
    else if (colour.value === "class") legend.replaceChildren(...Object.entries(data.classNames).map(([label, text]) => mark(homes[label], text)));
    else legend.replaceChildren(make("li", {}, "0\u00a0%", make("i", {class: "ramp"}), colour.value === "share" ? "100\u00a0% of the cluster is at the point's client" : "100 %"));
    const sentences = Object.entries(data.sentences[+scale.value] || {});
    spoken.replaceChildren(...sentences.map(([number, text]) => {
      const line = mark(+number, text.replace(/^Cluster \d+/, cluster(number)));
      line.hidden = one.value !== "" && number !== one.value;
      return line;
    }));
    const more = clusters.length - sentences.length;
    if (sentences.length && more > 0) spoken.append(make("li", {}, "… and " + more + " smaller clusters."));
  };
  const update = () => {
    const clusters = data.cuts[+scale.value], sums = totals(clusters), present = [...sums.keys()].sort((a, b) => a - b);
    const kept = sums.has(+one.value) && one.value !== "" ? one.value : "";
    one.replaceChildren(make("option", {value: ""}, "all"), ...present.map(number =>
      make("option", {value: number}, cluster(number))));
    one.value = kept;
    const sought = query.value.trim().toLowerCase();
    let visible = 0, hits = [];
    dots.forEach((dot, at) => {
      const number = clusters[at], sum = sums.get(number), owner = data.clients ? data.clients[at] : -1;
      const part = {share: owner < 0 ? 0 : sum.clients[owner] / sum.all, confidence: (data.confidence || [])[at] / 100}[colour.value];
      const isShown = (client.value === "" || owner === +client.value) && (one.value === "" || number === +one.value);
      const isHit = sought !== "" && isShown && data.ids[at].toLowerCase() === sought;
      const style = colour.value === "class" ? look(homes[data.classes[at]]) : part === undefined ? look(number) : "graded";
      dot.setAttribute("class", style + (isShown ? "" : " away") + (isHit ? " hit" : ""));
      dot.style.cssText = part === undefined ? "" : "--c:" + mixed(part);
      if (isHit) hits.push(dot);
      visible += isShown;
      if (!isShown) return dot.removeAttribute("data-tip");
      const lines = [cluster(number)];
      if (owner >= 0) lines.push(data.names[owner] + (isShared ? ", " + Math.round(100 * sum.clients[owner] / sum.all) + " % of the cluster" : ""));
      if (data.sizes) lines.push(size(at) + " rows");
      if (data.ids) lines.push(data.idName + " " + data.ids[at]);
      if (data.confidence) lines.push("confidence " + data.confidence[at] + " %");
      if (data.classes) lines.push("true class " + data.classNames[data.classes[at]]);
      dot.dataset.tip = lines.join("\n");
    });
    title.textContent = data.scales[+scale.value] || "";
    scale.setAttribute("aria-valuetext", title.textContent);
    status.textContent = visible.toLocaleString("en") + " of " + dots.length.toLocaleString("en") + " points are shown" + (sought ? "; " + hits.length + (hits.length === 1 ? " is" : " are") + " called " + query.value.trim() : "") + ".";
    list(present);
    return hits;
  };

  // Zoom and pan, in units of the drawing.

  let view = {x: 0, y: 0, by: 1};
  const place = () => {
    view.x = Math.max(0, Math.min(width - width / view.by, view.x));
    view.y = Math.max(0, Math.min(height - height / view.by, view.y));
    svg.setAttribute("viewBox", [view.x, view.y, width / view.by, height / view.by].join(" "));
    svg.classList.toggle("near", view.by > 1);
    dots.forEach((dot, at) => dot.setAttribute("r", (radii[at] / view.by ** 0.7).toFixed(2)));
    svg.style.setProperty("--by", view.by);
  };
  const zoom = (factor, x = view.x + width / view.by / 2, y = view.y + height / view.by / 2) => {
    const by = Math.max(1, Math.min(40, view.by * factor));
    view = {x: x - (x - view.x) * view.by / by, y: y - (y - view.y) * view.by / by, by};
    place();
  };
  const move = (right, down) => { view.x += right; view.y += down; place(); };
  const all = () => { view = {x: 0, y: 0, by: 1}; place(); };
  const at = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  [() => zoom(1.6), () => zoom(1 / 1.6), all].forEach((act, index) => zooms[index].addEventListener("click", act));
  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== svg) return; // the page scrolls
    event.preventDefault();
    const {x, y} = at(event);
    zoom(event.deltaY < 0 ? 1.25 : 0.8, x, y);
  }, {passive: false});
  const fingers = new Map();
  const apart = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY); };
  svg.addEventListener("pointerdown", event => fingers.set(event.pointerId, event));
  svg.addEventListener("pointermove", event => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const [was, now] = [at(before), at(event)], gap = fingers.size > 1 ? apart() : 0;
    fingers.set(event.pointerId, event);
    if (gap) zoom(apart() / gap, now.x, now.y); else if (view.by > 1) move(was.x - now.x, was.y - now.y);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(name, event => fingers.delete(event.pointerId));
  svg.addEventListener("keydown", event => {
    const step = width / view.by / 8;
    const keys = {"+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), "0": all};
    const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (keys[event.key]) keys[event.key](); else if (event.shiftKey && moves[event.key]) move(...moves[event.key]); else return;
    event.preventDefault();
  });
  for (const control of [colour, client, one, scale]) control.addEventListener("input", update);
  query.addEventListener("input", () => {
    const [hit] = update();
    if (!hit) return;
    view = {x: hit.cx.baseVal.value - width / view.by / 2, y: hit.cy.baseVal.value - height / view.by / 2, by: view.by};
    place();
    const box = hit.getBoundingClientRect();
    hit.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));
  });
  svg.querySelectorAll("g").forEach(group => group.removeAttribute("data-tip"));
  update();
}));
