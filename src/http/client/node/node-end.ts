import { SignalboxError } from '../../../core/errors.ts'
import { nodeCloseCodes } from '../../contract/index.ts'
import type { SocketEnd } from './node-socket.ts'

/** Why there is no use in another connection; undefined when there is. */
export function finalEnd(
  { code, reason }: SocketEnd,
  problem: { readonly code: string; readonly message: string } | undefined,
): SignalboxError | undefined {
  const why = problem?.message ?? reason
  switch (code) {
    case nodeCloseCodes.badHello:
      if (problem?.code === 'forbidden')
        return new SignalboxError('forbidden', `The server did not take the node: ${why}`)
      return new SignalboxError('invalid_argument', `The server did not take the node: ${why}`)
    case nodeCloseCodes.unauthorized:
      return new SignalboxError('unauthorized', `The node's token counts no more: ${why}`)
    case nodeCloseCodes.superseded:
      return new SignalboxError('conflict', `Another instance with this node's id took over. ${why}`.trim())
    default:
      return undefined
  }
}
