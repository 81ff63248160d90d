// Tries every page in its frame and writes what it found, as JSON, into the <pre> below the frames.

const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));

const tipOf = page => {
  const tip = page.document.getElementById("tip");
  return tip.hidden ? null : tip.textContent;
};

const point = (page, target, type, x, y, more = {}) =>
  target.dispatchEvent(new page.PointerEvent(type, {bubbles: true, clientX: x, clientY: y, pointerType: "mouse", ...more}));

const beyond = page => [...page.document.querySelectorAll("body *")].filter(element => {
  const box = element.getBoundingClientRect();
  return box.width && box.right > page.innerWidth + 0.5 && !element.closest(".scroll, pre, #tip");
}).map(element => element.outerHTML.slice(0, 120));

const scrolled = page => [...page.document.querySelectorAll(".scroll")].flatMap(box => {
  const name = box.querySelector("tbody th");
  if (!name || box.scrollWidth <= box.clientWidth) return [];
  const before = name.getBoundingClientRect().left;
  box.scrollLeft = 60;
  const after = name.getBoundingClientRect().left;
  box.scrollLeft = 0;
  return [[before, after]];
});

const hovered = page => [...page.document.querySelectorAll(".chart")].map(chart => {
  chart.scrollIntoView({block: "center", behavior: "instant"});
  const stops = [...chart.querySelectorAll(".stop")];
  const stop = stops[stops.length - 1];
  const box = chart.getBoundingClientRect();
  const place = box.left + stop.dataset.x / chart.viewBox.baseVal.width * box.width;
  point(page, chart, "pointermove", place + 3, box.top + box.height / 2);
  const tip = page.document.getElementById("tip").getBoundingClientRect();
  return {
    clear: tip.left > place || tip.right < place || tip.top >= box.bottom || tip.bottom <= box.top,
    shown: tipOf(page), expected: stop.dataset.tip, place, left: tip.left, right: tip.right,
    guide: chart.querySelector(".guide.on path").getBoundingClientRect().left,
    circles: chart.querySelectorAll(".guide circle").length, values: stop.dataset.y.split(",").filter(Boolean).length,
  };
});

// A map by its controls: what is shown, how it looks, and what is said, after each of them.
const mapped = page => {
  const figure = page.document.querySelector(".plane");
  if (!figure) return null;
  const [colour, client, cluster] = figure.querySelectorAll("select");
  const svg = figure.querySelector("svg"), [search] = figure.querySelectorAll("input[type=search]");
  const scale = figure.querySelector("input[type=range]");
  const set = (control, value) => {
    control.value = value;
    control.dispatchEvent(new page.Event("input", {bubbles: true}));
  };
  const seen = () => ({
    looks: [...svg.querySelectorAll("circle")].map(dot => dot.getAttribute("class")),
    shown: svg.querySelectorAll("circle[data-tip]").length, said: [...figure.querySelectorAll(".described li")].map(line => line.textContent),
    title: figure.querySelector(".scale output").textContent, box: svg.getAttribute("viewBox"),
  });
  const found = {begin: seen()};
  set(scale, 2); found.finer = seen();
  set(scale, 0); found.coarser = seen();
  set(scale, 1); set(client, "1"); found.client = seen();
  set(client, ""); set(cluster, "1"); found.cluster = seen();
  set(cluster, ""); set(colour, "confidence"); found.confidence = seen();
  set(colour, "cluster"); set(search, "P4");
  found.search = {...seen(), tip: tipOf(page), hits: svg.querySelectorAll(".hit").length};
  svg.focus();
  for (const [name, key, more] of [["near", "+"], ["moved", "ArrowRight", {shiftKey: true}], ["whole", "0"]]) {
    svg.dispatchEvent(new page.KeyboardEvent("keydown", {bubbles: true, key, ...more}));
    found[name] = seen().box.split(" ").map(Number);
  }
  svg.dispatchEvent(new page.KeyboardEvent("keydown", {bubbles: true, key: "Home"}));
  found.first = tipOf(page);
  return found;
};

// The clipboard of a browser without a window cannot be read, so what is handed to it is looked at.
const copied = async (page, clipboard) => {
  Object.defineProperty(page.navigator, "clipboard", {value: clipboard, configurable: true});
  for (const button of page.document.querySelectorAll(".copy")) button.click();
  await wait(50);
};

const check = async page => {
  page.document.querySelectorAll("details").forEach(folded => { folded.open = true; });
  await wait(50);
  const found = {width: page.innerWidth, scrolls: page.document.documentElement.scrollWidth, beyond: beyond(page)};
  Object.assign(found, {scrolled: scrolled(page), hovered: hovered(page), map: mapped(page)});
  found.copied = [];
  found.selected = [];
  await copied(page, {writeText: async text => { found.copied.push(text); }});
  page.document.execCommand = () => {
    found.selected.push(page.document.activeElement.value);
    return found.selected.length !== 1;
  };
  await copied(page, undefined);
  return found;
};

addEventListener("load", async () => {
  const found = {};
  for (const frame of Array.from(frames)) found[frame.name] = await check(frame);
  document.querySelector("body > pre").textContent = JSON.stringify(found);
  console.log("checks are done");
});
