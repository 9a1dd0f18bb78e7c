import unittest

from prices import total


class Prices(unittest.TestCase):
    def test_everyone_pays_the_sum(self) -> None:
        self.assertEqual(total([2.5, 7.5]), 10)

    def test_members_get_a_tenth_off(self) -> None:
        self.assertEqual(total([2.5, 7.5], member=True), 9)


if __name__ == "__main__":
    unittest.main()
