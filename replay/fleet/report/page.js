"use strict";

const choice = document.getElementById("cluster");

function showCluster(name) {
  let shown = 0;
  for (const one of document.querySelectorAll(".incident")) {
    one.hidden = name !== "" && one.dataset.cluster !== name;
    shown += one.hidden ? 0 : 1;
  }
  document.getElementById("no-incident").hidden = shown > 0;
}

function goTo(cluster) {
  if (!choice) return;
  choice.value = cluster;
  // A cluster without a listed incident cannot be chosen.
  if (choice.value !== cluster) choice.value = "";
  showCluster(cluster);
  choice.scrollIntoView({ block: "center" });
}

for (const place of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(document.getElementById("data-" + place.dataset.chart).textContent);
  if (innerWidth < 600) figure.layout.font.size = 10;
  Plotly.newPlot(place, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  if (place.dataset.chart === "clusters") {
    place.on("plotly_click", (event) => goTo(event.points[0].customdata));
  }
}
if (choice) choice.addEventListener("change", () => showCluster(choice.value));

function openNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (named && named.matches(".incident, .divergence")) named.open = true;
}
addEventListener("hashchange", openNamed);
openNamed();
