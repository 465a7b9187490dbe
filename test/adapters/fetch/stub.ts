import type { FetchLike } from "headgate/fetch";

/** One call that the stub has been sent, to be answered by the test. */
interface Sent {
  readonly input: string | URL | Request;
  readonly init: RequestInit | undefined;
  answer(body?: BodyInit | null, init?: ResponseInit): void;
  respond(response: Response): void;
  fail(error: unknown): void;
}

/** A fetch that is answered by hand. */
export function stubFetch() {
  const sent: Sent[] = [];
  let receiver: unknown = "not called";
  const fetch = function (
    this: unknown,
    input: string | URL | Request,
    init?: RequestInit,
  ): Promise<Response> {
    receiver = this;
    return new Promise((resolve, reject) => {
      sent.push({
        input,
        init,
        answer: (body = null, how = {}) => resolve(new Response(body, how)),
        respond: resolve,
        fail: reject,
      });
    });
  } as FetchLike;
  return {
    fetch,
    sent,
    /** What `this` was in the last call. */
    receiver: () => receiver,
    /** Answers all calls with an empty body. */
    answerAll: () => {
      for (const call of sent) call.answer();
    },
  };
}

/** A body in pieces that the test hands out; `pulled` says how many have been asked for. */
export function pieces(...texts: string[]) {
  const state = { pulled: 0, cancelled: undefined as unknown };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const text = texts[state.pulled];
        state.pulled += 1;
        if (text === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(text));
      },
      cancel(reason) {
        state.cancelled = reason;
      },
    },
    { highWaterMark: 0 },
  );
  return { state, stream };
}
