import type { Contention } from '../../../contention/index.ts'
import type { getContention } from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes of contention, by their ids. */
export interface ContentionHandlers {
  readonly getContention: Handler<typeof getContention>
}

export function contentionHandlers(contention: Pick<Contention, 'snapshot'>): ContentionHandlers {
  return {
    async getContention({ principal: { everyNamespace, namespace } }) {
      // Keys of locks and what turns were about are users' data; kinds and numbers are not.
      return { body: contention.snapshot(everyNamespace ? {} : { namespace }) }
    },
  }
}
