"use strict";
// Only in a page that `refold serve` sends: loads the page again when a log has grown.
const LOOK_EVERY_MS = 2000;
function follow_log() {
  by_id("following").hidden = false; by_id("list-link").hidden = false;
  const look = async () => {
    let version = given.version;
    try {
      const answer = await fetch("/version" + location.search);
      if (answer.ok) version = (await answer.json()).version;
    } catch { /* The server has ended: the page stays as it is. */ }
    if (by_id("follow").checked && version !== given.version) load_again(); else setTimeout(look, LOOK_EVERY_MS);
  };
  setTimeout(look, LOOK_EVERY_MS);
}
function load_again() {
  // A window that shows the end shows the new end.
  const asked = new URLSearchParams(location.hash.slice(1));
  if (view.to >= begin_of_all() + span_of_all()) { asked.delete("w"); history.replaceState(null, "", "#" + asked.toString()); }
  location.reload();
}
