import type { ReactNode } from 'react'
import { Hint } from '../kit/hint.tsx'
import { Icon, type IconName } from '../kit/icon.tsx'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { Link, usePlace } from './router.tsx'
import { groups, viewOf, views } from './views.ts'

/** All views, in their groups. */
export function Navigation(): ReactNode {
  const say = useWords(shellWords)
  const { view } = usePlace()
  const current = viewOf(view).parent ?? view
  return (
    <nav aria-label={say('navigation')}>
      {groups.map((group) => (
        <div key={group} className="nav-group">
          <h2>{say(group)}</h2>
          <ul>
            {views
              .filter((one) => one.group === group)
              .map(({ name, key }) => (
                <li key={name}>
                  <Link to={name} current={name === current}>
                    <Icon name={name as IconName} />
                    <span>{say(name)}</span>
                    {key && <Hint keys={`g ${key}`} />}
                  </Link>
                </li>
              ))}
          </ul>
        </div>
      ))}
    </nav>
  )
}
