// Browsers refuse to start a worker from a file:// URL. The search of the theme needs one, so this
// file replaces `Worker` by a hidden frame that runs the same script. It replaces the shim that the
// offline plugin would load from the network: the plugin looks for "iframe-worker" in the name.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      // Firefox would replace the initial document later; opening it cancels that.
      this.frame.contentDocument.open();
      this.frame.contentDocument.write("<!doctype html><body></body>");
      this.frame.contentDocument.close();
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.emit("message", data);
      inner.importScripts = (...urls) =>
        urls.reduce((loaded, next) => loaded.then(() => this.load(next)), Promise.resolve());
      this.ready = this.load(url);
    }

    load(url) {
      const inner = this.frame.contentDocument;
      return new Promise((resolve, reject) => {
        const script = inner.createElement("script");
        script.src = String(url);
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${url}`));
        inner.body.appendChild(script);
      });
    }

    emit(type, data) {
      const event = new MessageEvent(type, { data });
      this.dispatchEvent(event);
      const handler = this[`on${type}`];
      if (handler) handler.call(this, event);
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
