import { type ReactNode, useState } from 'react'
import type { WireNode } from '../../../src/http/client/index.ts'
import { Confirm } from '../../kit/confirm.tsx'
import { Input } from '../../kit/field.tsx'
import { spanOf } from '../../kit/text/span.ts'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import type { NodeService } from './parts.tsx'
import { nodeTold } from './until-published.ts'

export interface DrainingProps {
  readonly node: WireNode
  readonly onClose: () => void
}

/** Asks before a node is drained, with a deadline if one is wanted, or its drain is ended. */
export function Draining({ node, onClose }: DrainingProps): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  // Keep the state from when the dialog opened, so that an update does not invert the question.
  const [{ nodeId, draining, taskIds }] = useState(node)
  const [deadline, write] = useState('')
  const act = draining ? 'undrain' : 'drain'
  const confirm = async () => {
    const written = deadline.trim()
    await client.dispatch.drain(
      nodeId,
      draining ? { on: false } : written === '' ? {} : { deadlineMs: spanOf(written) },
    )
    toast(say(draining ? 'undrained' : 'drained', { node: visible(nodeId) }))
    await nodeTold(client, nodeId, (now) => now.draining !== draining)
  }
  return (
    <Confirm
      title={say(`${act}Ask`, { node: visible(nodeId), count: taskIds.length })}
      act={say(act)}
      danger={!draining && deadline.trim() !== ''}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say(`${act}Means`)}</p>
      {!draining && (
        <>
          <div className="nodes-deadline">
            <Input live label={say('deadline')} value={deadline} onChange={write} />
          </div>
          <p>{say('deadlineMeans')}</p>
        </>
      )}
    </Confirm>
  )
}

export interface CordoningProps extends DrainingProps {
  /** This one alone. */
  readonly service?: NodeService
}

/** Asks before a node, or one service of it, is closed for new work or opened again. */
export function Cordoning({ node, service, onClose }: CordoningProps): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  const [asked] = useState({ node, service })
  const { nodeId } = asked.node
  const on = !(asked.service ?? asked.node).cordoned
  const act = on ? 'cordon' : 'uncordon'
  const title =
    asked.service === undefined
      ? say(`${act}Ask`, { node: visible(nodeId), count: asked.node.taskIds.length })
      : say(`${act}ServiceAsk`, {
          node: visible(nodeId),
          service: visible(asked.service.name),
          count: asked.service.used,
        })
  const confirm = async () => {
    const name = asked.service?.name
    await client.dispatch[act](nodeId, name === undefined ? {} : { service: name })
    const what = name === undefined ? visible(nodeId) : `${visible(name)} (${visible(nodeId)})`
    toast(say(on ? 'cordonedDone' : 'uncordonedDone', { node: what }))
    await nodeTold(client, nodeId, ({ services, cordoned }) =>
      name === undefined ? cordoned === on : services.some((one) => one.name === name && one.cordoned === on),
    )
  }
  return (
    <Confirm title={title} act={say(act)} onConfirm={confirm} onClose={onClose}>
      <p>
        {on ? say(asked.service === undefined ? 'cordonMeans' : 'cordonServiceMeans') : say('uncordonMeans')}
      </p>
    </Confirm>
  )
}
