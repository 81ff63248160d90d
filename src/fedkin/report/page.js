(() => {
  const tip = document.getElementById("tip");
  let chosen = null; // what the tip is about

  // Names of clusters, which are the page's last line.

  document.addEventListener("DOMContentLoaded", () => {
    const names = JSON.parse(document.getElementById("cluster-names").textContent);
    document.querySelectorAll("[data-cluster]").forEach(title => {
      if (title.dataset.cluster in names) title.append(", " + names[title.dataset.cluster]);
    });
  });

  // Tips: of cells, bars, dots and lanes, and of the steps of a curve, which a guide shows.

  const write = over => {
    const values = over.dataset.y === undefined ? [] : over.dataset.y.split(",");
    tip.replaceChildren();
    over.dataset.tip.split("\n").forEach((line, at) => {
      if (at) tip.append("\n");
      if (at && at <= values.length && values.length > 1) {
        tip.append(document.createElement("i"));
        tip.lastChild.className = values[at - 1].split(" ")[1] || "";
      }
      tip.append(line);
    });
  };
  const guide = stop => {
    const drawn = stop.parentNode.querySelector(".guide");
    drawn.querySelectorAll("circle").forEach(circle => circle.remove());
    drawn.firstChild.setAttribute("transform", "translate(" + stop.dataset.x + " 0)");
    stop.dataset.y.split(",").filter(Boolean).forEach(value => {
      const [y, colour] = value.split(" ");
      const circle = document.createElementNS(drawn.namespaceURI, "circle");
      for (const [name, value] of [["cx", stop.dataset.x], ["cy", y], ["r", 4.6], ["class", colour]]) {
        circle.setAttribute(name, value);
      }
      drawn.append(circle);
    });
    return drawn;
  };
  const line = stop => stop.parentNode.querySelector(".guide path").getBoundingClientRect();
  const hide = () => {
    tip.hidden = true;
    document.querySelectorAll(".on").forEach(element => element.classList.remove("on"));
    chosen = null;
  };
  const show = (over, x, y) => {
    if (over !== chosen) {
      hide();
      (over.matches(".stop") ? guide(over) : over).classList.add("on");
      write(over);
      tip.hidden = false;
      chosen = over;
    }
    const stop = over.matches(".stop");
    const box = tip.getBoundingClientRect();
    const most = innerWidth - box.width - 8;
    const from = stop ? line(over).left : x;
    const sides = [from + 14, from - 14 - box.width].filter(left => left >= 8 && left <= most);
    // A tip as wide as the window hides no line of a curve: it goes below the drawing, or above it.
    const drawing = stop && !sides.length ? over.closest(".chart").getBoundingClientRect() : {top: y, bottom: y + 18};
    const top = drawing.bottom + box.height > innerHeight ? drawing.top - box.height - 12 : drawing.bottom;
    const left = sides.length ? sides[0] : Math.min(from + 14, most);
    tip.style.transform = "translate(" + Math.max(8, left) + "px," + Math.max(8, top) + "px)";
  };
  const showBeside = over => {
    if (over.matches(".stop")) {
      guide(over);
      const box = line(over);
      return show(over, box.left, box.top + box.height / 2);
    }
    const box = over.getBoundingClientRect();
    show(over, box.left + box.width / 2, over.matches("td") ? box.bottom - 8 : box.top + box.height / 2);
  };
  const nearest = (chart, x) => {
    const place = new DOMPoint(x, 0).matrixTransform(chart.getScreenCTM().inverse()).x;
    const away = stop => Math.abs(stop.dataset.x - place);
    return [...chart.querySelectorAll(".stop")].reduce((best, stop) => away(stop) < away(best) ? stop : best);
  };
  // A finger that moves keeps the element it first touched as its target, so that is looked for again.
  const follow = event => {
    const at = event.pointerType === "touch" ? document.elementFromPoint(event.clientX, event.clientY) : event.target;
    const over = at && at.closest && at.closest(".chart, [data-tip]");
    const tipped = over && over.matches(".chart") ? nearest(over, event.clientX) : over;
    if (tipped && tipped.dataset.tip) show(tipped, event.clientX, event.clientY); else hide();
  };
  for (const name of ["pointermove", "pointerover", "pointerdown"]) document.addEventListener(name, follow);
  document.documentElement.addEventListener("pointerleave", event => {
    if (event.pointerType !== "touch") { hide(); mark(undefined); }
  });
  document.addEventListener("scroll", () => chosen && chosen.closest(":focus") ? showBeside(chosen) : hide(), {capture: true, passive: true});

  // The same by keyboard: drawings and cells take the focus, arrow keys go from one to the next in a drawing.

  const all = drawing => [...drawing.querySelectorAll("[data-tip]")];
  document.addEventListener("focusin", event => {
    if (!event.target.matches(":focus-visible")) return;
    const tips = event.target.matches("svg") ? all(event.target) : [];
    if (tips.length) showBeside(tips[tips.length - 1]);
    else if (event.target.dataset.tip) showBeside(event.target);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") hide();
    if (!event.target.matches("svg") || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const tips = all(event.target);
    const before = tips.indexOf(chosen);
    const next = {ArrowLeft: before - 1, ArrowUp: before - 1, ArrowRight: before + 1, ArrowDown: before + 1, Home: 0, End: tips.length - 1}[event.key];
    if (next === undefined || !tips.length) return;
    event.preventDefault();
    showBeside(tips[Math.max(0, Math.min(tips.length - 1, next))]);
  });

  // Copying: tables as tab-separated values, commands as they are.

  const words = (cell, without) => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll(without).forEach(part => part.remove());
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const values = table => {
    const rows = [...table.rows];
    const beside = cell => cell.querySelector("small");
    const split = [...rows[0].cells].map((_, at) => rows.some(row => row.cells[at] && beside(row.cells[at])));
    return rows.map((row, index) => [...row.cells].flatMap((cell, at) => {
      const text = words(cell, "small");
      if (!split[at]) return [text];
      return [text, index ? (beside(cell) ? words(beside(cell), "none") : "") : text + " (beside)"];
    }).join("\t")).join("\n");
  };
  const bySelection = text => {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.cssText = "position:fixed;top:0;left:0;opacity:0";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  };
  const mend = (button, text) => {
    button.textContent = text;
    button.classList.add("done");
    setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 1600);
  };
  const select = content => {
    getSelection().removeAllRanges();
    getSelection().selectAllChildren(content);
  };
  document.addEventListener("click", async event => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const content = button.closest(".sheet, .commands").querySelector("table, code");
    const text = content.matches("table") ? values(content) : content.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const copied = bySelection(text);
      button.focus({preventScroll: true});
      if (!copied) {
        select(content);
        return mend(button, "Selected: press Ctrl+C");
      }
    }
    mend(button, "Copied");
  });
})();
