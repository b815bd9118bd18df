import { SignalboxError } from '../../src/http/client/index.ts'
import { liveness } from '../live/connection.ts'
import { askWhetherLost } from '../live/queries.ts'

/** A part of the page could not be loaded: the server was down, or it now serves another build. */
export class PartMissing extends SignalboxError {
  /** How often the server had come back by then. */
  readonly timesBack: number = liveness.get().timesBack

  constructor(cause: unknown) {
    super('store_unavailable', `A part of this page could not be loaded: ${(cause as Error).message}`, {
      cause,
    })
  }
}

/** Loads the part or throws `PartMissing`. It tries once: browsers and React cache the failure. */
export async function loadPart<Part>(load: () => Promise<Part>): Promise<Part> {
  try {
    return await load()
  } catch (error) {
    askWhetherLost()
    throw new PartMissing(error)
  }
}
