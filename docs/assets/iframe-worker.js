// Browsers start no workers in pages that are opened from disk. There, the search of the site runs
// in a hidden frame instead, behind the interface of a worker that the theme uses.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    this.window = frame.contentWindow;
    const load = (...urls) =>
      urls.reduce(
        (before, src) =>
          before.then(
            () =>
              new Promise((resolve, reject) => {
                const script = frame.contentDocument.createElement("script");
                script.src = src;
                script.onload = resolve;
                script.onerror = reject;
                frame.contentDocument.body.appendChild(script);
              }),
          ),
        Promise.resolve(),
      );
    window.addEventListener("message", (event) => {
      if (event.source === this.window) {
        event.stopImmediatePropagation();
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      }
    });
    const page = frame.contentDocument;
    page.open();
    page.write("<html><body><script>postMessage = parent.postMessage.bind(parent)</" + "script></body></html>");
    page.close();
    this.window.importScripts = load;
    this.ready = load(url);
  }

  postMessage(data) {
    const message = () => new this.window.MessageEvent("message", { data });
    this.ready.then(() => this.window.dispatchEvent(message()));
  }

  terminate() {
    this.window.frameElement.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
