/*
 * A response that tells when it has been sent.
 *
 * The question: a handler returns its response as soon as the head is ready, but a stream goes on for minutes. When is the
 * request over? Only the body knows. So the body is replaced by one that hands on what is read from it, and tells once: at its
 * end, when it is cancelled, or when it fails.
 *
 * It asks for nothing before it is asked (a high-water mark of 0), so back-pressure reaches the handler as before. The
 * surprise is the price of every such replacement: a body that nobody ever reads never ends.
 */

/** Hands on a body, and tells when it is over, once. */
export function watchBody(
  body: ReadableStream<Uint8Array>,
  onEnd: (how: "done" | "cancelled" | "failed") => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    type: "bytes",
    async pull(controller) {
      let chunk: ReadableStreamReadResult<Uint8Array>;
      try {
        do {
          chunk = await reader.read();
          // A byte stream takes no empty chunk.
        } while (!chunk.done && chunk.value.byteLength === 0);
      } catch (error) {
        onEnd("failed");
        throw error;
      }
      if (!chunk.done) {
        controller.enqueue(chunk.value as Uint8Array<ArrayBuffer>);
        return;
      }
      onEnd("done");
      controller.close();
      // A reader that has brought its own buffer waits for it.
      controller.byobRequest?.respond(0);
    },
    async cancel(reason) {
      onEnd("cancelled");
      await reader.cancel(reason);
    },
  });
}

/**
 * Whether a response has to be passed on as it is: one of an upgrade, on which some hosts hang a socket that a copy would not
 * have, one that is no real response, and one whose body somebody reads already.
 */
export function isUntouchable(response: Response): boolean {
  const isUpgrade = (response as { webSocket?: unknown }).webSocket != null;
  return isUpgrade || response.status < 200 || response.body?.locked === true;
}
