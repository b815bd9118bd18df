import type { Tokens } from '../../access/index.ts'
import type { Handler } from '../call.ts'
import { rootHandler } from '../root.ts'
import { eventHandlers } from './events.ts'
import { type JobMeterPart, jobHandlers } from './jobs.ts'
import { lockHandlers } from './locks.ts'
import { type SystemParts, systemHandlers } from './system.ts'
import { tokenHandlers } from './tokens.ts'

/** What handlers are made of. */
export interface HandlerParts {
  readonly tokens: Tokens
  readonly meter: JobMeterPart
  readonly system: SystemParts
}

/** Every handler, by the id of its route. Each knows the types of its own route; from here on they are all alike. */
export function createHandlers({ tokens, meter, system }: HandlerParts): Readonly<Record<string, Handler>> {
  const all = {
    ...jobHandlers(meter),
    ...lockHandlers,
    ...tokenHandlers(tokens),
    ...eventHandlers,
    ...systemHandlers(system),
    root: rootHandler,
  }
  return all as unknown as Readonly<Record<string, Handler>>
}
