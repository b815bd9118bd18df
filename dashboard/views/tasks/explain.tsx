import type { ReactNode } from 'react'
import type { WireFoundTask } from '../../../src/http/client/index.ts'
import { Icon } from '../../kit/icon.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { tasksWords } from '../../words/tasks.ts'
import { type Explanation, requirementNames, wakesOf } from './requirements.ts'

/** Why a task waits: from all nodes, requirement by requirement, to those that would do; and what would wake it. */
export function Explain({ task }: { readonly task: WireFoundTask }): ReactNode {
  const { taskId } = task
  const say = useWords(tasksWords)
  const client = useClient()
  const explanation = useLive(['tasks', 'explain', taskId], () => client.dispatch.explain(taskId), {
    everyMs: 3_000,
  })
  return (
    <Section title={say('explain')}>
      <Loaded query={explanation}>
        {(found) => (
          <div className="card tasks-explain">
            <Wakes explanation={found} task={task} />
            <Funnel explanation={found} task={task} />
          </div>
        )}
      </Loaded>
    </Section>
  )
}

interface PartProps {
  readonly explanation: Explanation
  readonly task: WireFoundTask
}

function Funnel({ explanation, task }: PartProps): ReactNode {
  const say = useWords(tasksWords)
  const sayNodes = useWords(nodesWords)
  const { nodeCount, suitableCount, readyCount, requirements } = explanation
  const nameOf = requirementNames(explanation, task, say, sayNodes)
  const share = (count: number) => (nodeCount === 0 ? 0 : count / nodeCount)
  return (
    <div>
      <p className="aside">{say('explainLead')}</p>
      <ol className="tasks-funnel">
        <Step look="total" name={say('stepAll')} share={1} figure={say('nodesCount', { count: nodeCount })} />
        {nodeCount > 0 &&
          requirements.map(({ requirement, failingCount }, nth) => (
            <Step
              // biome-ignore lint/suspicious/noArrayIndexKey: they stand in a fixed order, and two may be the same
              key={nth}
              look={failingCount === 0 ? 'holds' : failingCount === nodeCount ? 'fails' : 'some'}
              name={nameOf(requirement)}
              share={share(nodeCount - failingCount)}
              label={say('meets', { met: nodeCount - failingCount, count: nodeCount })}
              figure={failingCount === 0 ? say('holds') : say('failsOn', { count: failingCount })}
            />
          ))}
        <Step
          look="total"
          name={say('stepSuitable')}
          share={share(suitableCount)}
          figure={say('nodesCount', { count: suitableCount })}
        />
        <Step
          look="total"
          name={say('stepReady')}
          share={share(readyCount)}
          figure={say('nodesCount', { count: readyCount })}
        />
      </ol>
    </div>
  )
}

const marks = { total: 'nodes', holds: 'completed', some: 'warning', fails: 'dead' } as const

interface StepProps {
  readonly look: keyof typeof marks
  readonly name: string
  readonly share: number
  readonly figure: string
  readonly label?: string
}

function Step({ look, name, share, figure, label }: StepProps): ReactNode {
  const format = useFormat()
  return (
    <li className={`is-${look}`} title={label ?? format.percent(share)}>
      <Icon name={marks[look]} />
      <span className="tasks-step">
        <Text value={name} />
      </span>
      <span className="tasks-share" aria-hidden="true">
        <i style={{ inlineSize: `${share * 100}%` }} />
      </span>
      <span className="tasks-figure">{figure}</span>
    </li>
  )
}

function Wakes({ explanation, task }: PartProps): ReactNode {
  const say = useWords(tasksWords)
  const sayNodes = useWords(nodesWords)
  const nameOf = requirementNames(explanation, task, say, sayNodes)
  return (
    <div className="tasks-wakes">
      <div>
        <h3>{say('wakes')}</h3>
        <ul>
          {wakesOf(explanation, task, nameOf, say).map((wake) => (
            <li key={wake}>
              <Icon name="next" />
              <Text value={wake} />
            </li>
          ))}
        </ul>
      </div>
      {explanation.nearest.length > 0 && (
        <div>
          <h3>{say('nearest')}</h3>
          <ul>
            {explanation.nearest.map(({ nodeId, missing }) => (
              <li key={nodeId}>
                <Icon name="nodes" />
                <span>
                  <Link to="nodes" query={{ id: nodeId }}>
                    <Text value={nodeId} />
                  </Link>{' '}
                  <span className="aside">{say('fallsShort')}</span>{' '}
                  <Text value={missing.map(nameOf).join(say('comma'))} />
                </span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  )
}
