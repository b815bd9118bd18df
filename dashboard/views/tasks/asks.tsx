import type { ReactNode } from 'react'
import type { WireFoundTask } from '../../../src/http/client/index.ts'
import { Facts, Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import { tasksWords } from '../../words/tasks.ts'
import { describeTerm, type Term } from '../nodes/rule.ts'

/** What a task asks of its node. */
export function Asks({ task }: { readonly task: WireFoundTask }): ReactNode {
  const say = useWords(tasksWords)
  const { uses, requires, prefers } = task
  const slots = Object.entries(uses).map(([name, count]) => say('usesOne', { name, count }))
  return (
    <Section title={say('asks')}>
      <div className="card">
        <Facts
          items={[
            [say('uses'), <Chips key="uses" texts={slots} />],
            [say('requires'), <Terms key="requires" terms={requires} />],
            prefers.length === 0 ? undefined : [say('prefers'), <Terms key="prefers" terms={prefers} />],
          ]}
        />
      </div>
    </Section>
  )
}

function Terms({ terms }: { readonly terms: readonly Term[] }): ReactNode {
  const say = useWords(tasksWords)
  const sayNodes = useWords(nodesWords)
  if (terms.length === 0) return <span className="aside">{say('nothingMore')}</span>
  return <Chips texts={terms.map((term) => describeTerm(term, sayNodes))} />
}

function Chips({ texts }: { readonly texts: readonly string[] }): ReactNode {
  return (
    <span className="tasks-chips">
      {texts.map((text, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they never change, and two may be the same
        <span key={nth} className="tasks-chip">
          <Text value={text} />
        </span>
      ))}
    </span>
  )
}
