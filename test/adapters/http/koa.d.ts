// What the tests use of Koa, which brings no types; those of DefinitelyTyped do not compile beside Express 5.
declare module "koa" {
  import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

  namespace Koa {
    interface Context {
      readonly req: IncomingMessage;
      readonly res: ServerResponse;
      readonly originalUrl: string;
      readonly path: string;
      status: number;
      body: unknown;
      respond?: boolean;
      set(name: string, value: string): void;
      redirect(url: string): void;
    }
  }

  class Koa {
    silent: boolean;
    use(middleware: (context: Koa.Context, next: () => Promise<unknown>) => Promise<void>): this;
    callback(): RequestListener;
  }
  export default Koa;
}
