// A choice between the versions of this site, where it lies beside others: `make docs-versions` writes ../versions.json.
(async () => {
  const box = document.querySelector(".versions");
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  if (!box || !root.protocol.startsWith("http")) return; // a page opened as a file has no neighbours to ask for
  const site = new URL("..", root);
  const answer = await fetch(new URL("versions.json", site)).catch(() => null);
  if (!answer?.ok) return;
  const versions = await answer.json();
  const choice = box.querySelector("select");
  for (const { version, url } of versions) {
    const here = new URL(url, site).href === root.href;
    choice.add(new Option(version, url, here, here));
  }
  box.hidden = versions.length < 2;
  choice.addEventListener("change", async () => {
    const there = new URL(choice.value, site);
    const page = new URL(location.href.slice(root.href.length), there);
    const found = await fetch(page, { method: "HEAD" }).catch(() => null);
    location.href = found?.ok ? page : there; // a page that this version lacks leads to its start
  });
})();
