// Puts each section's new content in the place of the old one. The server has escaped it.
"use strict";
{
    const live = document.getElementById("live");
    const icons = { live: "●", lost: "▲" };
    let lost = null;

    // Says how the page is connected, and only when that changes: a screen reader reads it aloud.
    const say = (state, text) => {
        const words = `${icons[state]} ${text}`;
        if (live.textContent !== words) {
            live.textContent = words;
            document.body.className = state;
        }
    };

    const show = ({ data }) => {
        const { version, sections } = JSON.parse(data);
        if (version !== document.body.dataset.version) {
            location.reload();
            return;
        }
        lost = null;
        say("live", "live");
        for (const [name, content] of Object.entries(sections)) {
            const section = document.getElementById(name);
            if (section.latest !== content) {
                section.latest = content;
                section.innerHTML = content;
                section.parentElement.hidden = content === "";
            }
        }
    };

    const connect = () => {
        const events = new EventSource("/events");
        events.onmessage = show;
        events.onerror = () => {
            lost ??= new Date();
            say("lost", `not connected since ${lost.toLocaleTimeString()}`);
            // After an answer that is no stream, the browser does not try again by itself.
            if (events.readyState === EventSource.CLOSED) {
                setTimeout(connect, 2000);
            }
        };
    };
    connect();
}
