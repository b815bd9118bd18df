import type { ReactNode } from 'react'
import type { WireNode } from '../../../src/http/client/index.ts'
import { Bar } from '../../kit/bar.tsx'
import { Badge } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { serverNow } from '../../live/server-clock.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { Slots } from './slots.tsx'

interface OfNode {
  readonly node: WireNode
}

/** Whether it is there, and all that keeps work from it. */
export function Standing({ node }: OfNode): ReactNode {
  const say = useWords(nodesWords)
  const { status, draining, cordoned, overloaded, heldFor } = node
  return (
    <span className="nodes-badges">
      {status === 'ready' && (
        <Badge tone="good" icon="completed">
          {say('ready')}
        </Badge>
      )}
      {status === 'suspect' && (
        <Badge tone="warn" icon="warning" title={say('suspectMeans')}>
          {say('suspect')}
        </Badge>
      )}
      {status === 'gone' && (
        <Badge tone="bad" icon="dead" title={say('goneMeans')}>
          {say('gone')}
        </Badge>
      )}
      {draining && (
        <Badge tone="warn" icon="waiting" title={say('drainingMeans')}>
          {say('draining')}
        </Badge>
      )}
      {cordoned && (
        <Badge tone="warn" icon="cancelled" title={say('cordonedMeans')}>
          {say('cordoned')}
        </Badge>
      )}
      {overloaded && (
        <Badge tone="bad" icon="warning" title={say('overloadedMeans')}>
          {say('overloaded')}
        </Badge>
      )}
      {heldFor !== null && (
        <Badge tone="info" icon="locks" title={say('heldMeans')}>
          {say('held')}
        </Badge>
      )}
    </span>
  )
}

export type NodeService = WireNode['services'][number]

/** It takes no new work just now. */
export function isClosed(node: WireNode, { cordoned, restsUntil }: NodeService, now: number): boolean {
  return cordoned || node.cordoned || node.draining || (restsUntil ?? 0) > now
}

const shownServices = 6

/** The services of a node, each with its slots drawn. */
export function ServiceSlots({ node }: OfNode): ReactNode {
  const say = useWords(nodesWords)
  const shown = node.services.slice(0, shownServices)
  const moreCount = node.services.length - shown.length
  return (
    <ul className="nodes-services">
      {shown.map((service) => (
        <li key={service.name}>
          <Text value={service.name} cut />
          <Slots
            name={service.name}
            used={service.used}
            slots={service.slots}
            closed={isClosed(node, service, serverNow())}
          />
          <span className="aside" aria-hidden="true">
            {service.used}/{service.slots}
          </span>
          {service.cordoned && (
            <Badge tone="warn" icon="cancelled" title={say('cordonedMeans')}>
              {say('cordoned')}
            </Badge>
          )}
        </li>
      ))}
      {moreCount > 0 && <li className="aside">{say('more', { count: moreCount })}</li>}
    </ul>
  )
}

const loads = ['cpu', 'gpu', 'memory'] as const
/** From here on it is worth a look, and from here on much. */
const highLoad = [0.75, 0.9] as const

/** How loaded a node says it is. */
export function Load({ node }: OfNode): ReactNode {
  const say = useWords(nodesWords)
  const format = useFormat()
  const told = loads.filter((what) => node.load[what] !== null)
  if (told.length === 0) return <span className="aside">{say('noLoad')}</span>
  return (
    <ul className="nodes-load">
      {told.map((what) => {
        const share = node.load[what]!
        const percent = format.percent(share)
        const tone = share >= highLoad[1] ? 'bad' : share >= highLoad[0] ? 'warn' : 'busy'
        return (
          <li key={what}>
            <span className="aside">{say(what)}</span>
            <Bar share={share} tone={tone} label={say('loadOf', { what: say(what), percent })} />
            <span className="end">{percent}</span>
          </li>
        )
      })}
    </ul>
  )
}

/** Words about a node. */
export function Labels({ node, most = 4 }: OfNode & { readonly most?: number }): ReactNode {
  const say = useWords(nodesWords)
  const all = Object.entries(node.labels)
  if (all.length === 0) return <span className="aside">{say('noLabels')}</span>
  return (
    <span className="nodes-labels">
      {all.slice(0, most).map(([name, value]) => (
        <span key={name} className="nodes-label">
          <Text value={name} /> <Text value={String(value)} />
        </span>
      ))}
      {all.length > most && <span className="aside">{say('more', { count: all.length - most })}</span>}
    </span>
  )
}

/** The server that has it. */
export function Via({ node }: OfNode): ReactNode {
  const say = useWords(nodesWords)
  if (node.via === null) return <span className="aside">{say('viaThis')}</span>
  return <Text value={node.via} cut />
}

/** How one service of a node stands. */
export function ServiceState({ node, service, now }: ServiceStateProps): ReactNode {
  const say = useWords(nodesWords)
  if (service.cordoned)
    return (
      <Badge tone="warn" icon="cancelled" title={say('cordonedMeans')}>
        {say('cordoned')}
      </Badge>
    )
  if (!isClosed(node, service, now))
    return (
      <Badge tone="good" icon="completed">
        {say('open')}
      </Badge>
    )
  const isNode = node.cordoned || node.draining
  return (
    <Badge tone="warn" icon="paused">
      {say(isNode ? 'closed' : 'rests')}
    </Badge>
  )
}

interface ServiceStateProps extends OfNode {
  readonly service: NodeService
  readonly now: number
}
