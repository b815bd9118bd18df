import type { Program } from './program.ts'
import { startOnFreePort } from './ready.ts'
import { createRevivable } from './revivable.ts'
import type { Service } from './service.ts'

/** A server of our own, to be started on some port. */
export interface Launch extends Pick<Service, 'name' | 'from'> {
  readonly folder: string
  start(port: number): Promise<Program>
  urlOf(port: number): string
  /** Asks the server at the address; throws when it is not ours. */
  ask(url: string): Promise<{ readonly version: string }>
}

/** Starts it on a free port, able to crash and restart. It takes over the data that was `kept` for it. */
export async function launch(
  kept: AsyncDisposableStack,
  { name, from, folder, start, urlOf, ask }: Launch,
): Promise<Service> {
  const askAt = (port: number) => ask(urlOf(port))
  const { program, port, answer } = await startOnFreePort(start, askAt)
  const revivable = kept.use(
    createRevivable(
      program,
      () => start(port),
      () => askAt(port),
    ),
  )
  const owned = kept.move()
  return {
    ...{ name, from, folder, revivable },
    url: urlOf(port),
    version: answer.version,
    pid: program.pid,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
