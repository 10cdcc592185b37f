from hypothesis import settings

from support.routemachine import RouteTableMachine

TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=150, stateful_step_count=40)
